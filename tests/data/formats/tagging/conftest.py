"""A little treebank, and data folders made of it."""

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TAGS = {"the": "DET", "dog": "NOUN", "bark": "NOUN", "barks": "VERB", "I": "PRON", ".": "PUNCT"}


def lines_of(text):
    """`word/TAG word` in CoNLL-U; a word without a tag has the usual one."""
    rows = [f"# text = {text}"]
    for number, item in enumerate(text.split(), 1):
        word, _, tag = item.partition("/")
        columns = [str(number), word, "_", tag or TAGS[word], "_", "_", "0", "_", "_", "_"]
        rows.append("\t".join(columns))
    return "\n".join(rows) + "\n\n"


def conll_u(*sentences):
    return "".join(map(lines_of, sentences))


PARTS = {
    "train": conll_u("the dog barks .", "the bark .", "I bark/VERB .", "the dog ."),
    "valid": conll_u("I bark/VERB .", "the cat/NOUN barks ."),
    "test": conll_u("the bark ."),
}


@pytest.fixture
def treebank(tmp_path):
    """Writes the parts, some of them replaced, and gives the options that name them."""

    def write(**changes):
        given = {}
        for split, text in {**PARTS, **changes}.items():
            if text is not None:
                path = tmp_path / f"{split}.conllu"
                path.write_text(text, encoding="utf-8", newline="")
                given[f"{split}pref"] = str(path)
        return {"format": "conllu", "destdir": str(tmp_path / "data"), **given}

    return write


@pytest.fixture
def folder(treebank):
    """Preprocesses the little treebank and opens it."""

    def make(parts=None, **options):
        config = preprocess_config(**{**treebank(**(parts or {})), "overwrite": True, **options})
        preprocess(config)
        return DataFolder.open(config.destdir)

    return make


@pytest.fixture(scope="session")
def sentences():
    """The text of sentences in CoNLL-U."""
    return conll_u
