"""A little tagged treebank, for the tests of the tasks on it."""

import pytest

from toolkit.config.preprocess import PreprocessConfig
from toolkit.data.folder import DataFolder
from toolkit.data.preprocess import preprocess

TRAIN = "the/DET dog/NOUN barks/VERB ./PUNCT|the/DET bark/NOUN ./PUNCT|I/PRON bark/VERB ./PUNCT"
VALID = "I/PRON bark/VERB ./PUNCT|the/DET cat/NOUN barks/VERB loudly/ADV ./PUNCT|dog/NOUN"


def columns(text):
    sentences = (s.replace(" ", "\n").replace("/", "\t") for s in text.split("|"))
    return "\n\n".join(sentences) + "\n"


@pytest.fixture
def tagged(tmp_path):
    """A folder of tagged text; options are those of toolkit-preprocess."""

    def make(train=TRAIN, valid=VALID, **options):
        for split, text in (("train", train), ("valid", valid)):
            (tmp_path / f"{split}.txt").write_text(columns(text))
        given = {f"{split}pref": str(tmp_path / f"{split}.txt") for split in ("train", "valid")}
        config = PreprocessConfig(**{
            "format": "columns", "destdir": str(tmp_path / "data"), "overwrite": True,
            "unseen_tags": "wrong", **given, **options,
        })  # fmt: skip
        preprocess(config)
        return DataFolder.open(config.destdir)

    return make
