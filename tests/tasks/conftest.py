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


PAIRS = "index\tsentence1\tsentence2\tlabel\n"
TABLES = {
    "RTE": {
        "train": PAIRS
        + "0\tthe cat sat\ta cat sat\tentailment\n1\tdogs run\tcats run\tnot_entailment\n" * 4,
        "dev": PAIRS + "0\tcats run\ta cat\tentailment\n1\tdogs\tcats\tnot_entailment\n",
        "test": "index\tsentence1\tsentence2\n1\tcats sat\tcats\n0\tdogs sat\tthe dogs\n",
    },
    "STS-B": {
        "train": "sentence1\tsentence2\tscore\n"
        + "the cat sat\ta cat sat\t3.8\ndogs run\tcats\t0\n" * 4
    },
}


@pytest.fixture
def glue(tmp_path):
    """A folder of one of GLUE's tasks; options are those of toolkit-preprocess."""

    def make(task="RTE", **options):
        (tables := tmp_path / f"{task}-tables").mkdir(exist_ok=True)
        for name, text in TABLES[task].items():
            (tables / f"{name}.tsv").write_text(text)
        given = {"format": "glue", "glue_task": task, "trainpref": str(tables), "vocab_size": 30}
        where = {"destdir": str(tmp_path / f"{task}-data"), "overwrite": True}
        preprocess(PreprocessConfig(**{**given, **where, **options}))
        return DataFolder.open(where["destdir"])

    return make
