"""Small text, a tokenizer trained on it, and data folders made of both."""

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.column_files import CheckedColumnPart, Column, ColumnWriter
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.data.tokenizers.vocabulary import append_special

WORDS = [
    "the",
    "a",
    "small",
    "old",
    "red",
    "house",
    "river",
    "saw",
    "took",
    "under",
    "near",
    "Café",
    "it",
    "was,",
    "indeed:",
    "1,234",
    "times",
]


def prose(sentences, seed=0):
    """One sentence a line, a blank line every 7."""
    draw = np.random.default_rng(seed)
    lines = []
    for number in range(sentences):
        lines.append(" ".join(draw.choice(WORDS, size=draw.integers(2, 12))) + ".")
        if number % 7 == 6:
            lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def random_prose():
    return prose


@pytest.fixture(scope="session")
def tokenizer():
    text = [*prose(300).split("\n"), *["cafe five 0123456789 8765430"] * 9]
    model = train_pieces(text, vocabulary_size=75, character_coverage=1.0)
    return SentencePieceTokenizer(model, lowercase=False)


@pytest.fixture(scope="session")
def model_file(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "some.model"
    path.write_bytes(tokenizer.model)
    return path


@pytest.fixture
def text_file(tmp_path):
    """Writes text or bytes under a name and answers with its path."""

    def write(content, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def make_folder(tmp_path, model_file):
    """Preprocesses a text with the session's model; further options as of the command."""

    def make(text, name="data", **options):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
        options = {"workers": 1, "sentencepiece_model": str(model_file), **options}
        preprocess(
            preprocess_config(
                trainpref=str(tmp_path / f"{name}.txt"), destdir=str(tmp_path / name), **options
            )
        )
        return DataFolder.open(tmp_path / name)

    return make


@pytest.fixture
def column(tmp_path):
    """A column of parts, given as lists of (items, numbers of the items that begin documents)."""

    def write(*parts, dtype="<u2"):
        readers = []
        for number, (items, documents) in enumerate(parts):
            writer = ColumnWriter(tmp_path / f"train.tokens.{number}", dtype)
            lengths = np.array([len(item) for item in items], np.int64)
            starts_document = np.isin(np.arange(len(items)), documents)
            writer.add(
                np.concatenate([np.array(i, np.int64) for i in items]), lengths, starts_document
            )
            readers.append(CheckedColumnPart(writer.stem, writer.finish()))
        return Column("tokens", readers)

    return write


@pytest.fixture
def vocabulary():
    """Pieces 0 .. 9, the odd ones begin words; [CLS] 10, [SEP] 11, <pad> 12, [MASK] 13."""
    return append_special([("▁" if i % 2 else "") + f"p{i}" for i in range(10)], unk=0)
