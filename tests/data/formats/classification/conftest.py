"""Little tables in the layout of GLUE, and data folders made of them."""

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

PAIRS = "index\tsentence1\tsentence2\tlabel\n"
RTE = {
    "train.tsv": PAIRS
    + "0\tthe cat sat\ta cat sat\tentailment\n1\tdogs run\tcats run\tnot_entailment\n" * 4,
    "dev.tsv": PAIRS + "0\tcats run\ta cat\tentailment\n1\tdogs\tcats\tnot_entailment\n",
    "test.tsv": "index\tsentence1\tsentence2\n1\tcats sat\tcats\n0\tdogs sat\tthe dogs\n",
}
STS = {
    "train.tsv": "sentence1\tsentence2\tscore\n"
    + "the cat sat\ta cat sat\t3.800\ndogs run\tcats\t0\n" * 4
}


@pytest.fixture
def write_tables(tmp_path):
    """Writes tables as they are, and gives their folder."""

    def write(tables=RTE):
        tables_dir = tmp_path / f"tables{len(list(tmp_path.iterdir()))}"
        tables_dir.mkdir()
        for name, text in tables.items():
            (tables_dir / name).write_text(text, encoding="utf-8", newline="")
        return tables_dir

    return write


@pytest.fixture
def folder(write_tables, tmp_path):
    """Preprocesses the tables of a folder and opens the result."""

    def make(tables=RTE, name="data", **options):
        tables_dir = write_tables(tables)
        given = {"format": "glue", "trainpref": str(tables_dir), "vocab_size": 30, **options}
        given |= {"glue_task": "RTE", **options} if given["format"] == "glue" else {}
        target = str(tmp_path / name)
        preprocess(preprocess_config(**given, destdir=target, overwrite=True))
        return DataFolder.open(target)

    return make
