"""Little parallel texts, and data folders made of them."""

import gzip

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TRAIN = {
    "de": "der Hund bellt\neine Katze\nder Hund\n" * 4,
    "en": "the dog barks\na cat\nthe dog\n" * 4,
}
VALID = {"de": "die Katze\n\nHund\n", "en": "the cat\n\ndog\n"}


@pytest.fixture
def write_files(tmp_path):
    """Writes a split's files, one for each language, and gives their common beginning."""

    def write(texts, name="train", ending=""):
        for language, text in texts.items():
            path = tmp_path / f"{name}.{language}{ending}"
            path.write_bytes(gzip.compress(text.encode()) if ending else text.encode())
        return str(tmp_path / name)

    return write


@pytest.fixture
def folder(write_files, tmp_path):
    """Preprocesses texts in two languages and opens the result."""

    def make(train=TRAIN, valid=VALID, name="data", **options):
        given = {"trainpref": write_files(train)} if train else {}
        given |= {"validpref": write_files(valid, "valid")} if valid else {}
        given |= {"source_lang": "de", "target_lang": "en", "tokenizer": "words", "workers": 1}
        where = {"destdir": str(tmp_path / name), "overwrite": True}
        preprocess(preprocess_config(**{**given, **where, **options}))
        return DataFolder.open(where["destdir"])

    return make
