import json
import shutil

import pytest

from tests.helpers.data_folders import opening_error
from tests.helpers.signed_files import sign_json

from .conftest import TEXT


def rewrite(folder, **changes):
    meta = {**json.loads((folder / "meta.json").read_text()), **changes}
    sign_json(folder / "meta.json", meta)


def test_missing_folder_and_missing_meta_are_distinguished(tmp_path):
    assert "No such data folder" in opening_error(tmp_path / "nowhere")
    assert "has no meta.json. Run toolkit-preprocess to the end" in opening_error(tmp_path)
    assert opening_error().startswith("a data folder is required")


def test_folder_without_its_meta_is_not_mistaken_for_fairseqs(folder):
    (folder / "meta.json").unlink()
    assert "has no meta.json. Run toolkit-preprocess to the end" in opening_error(folder)


@pytest.mark.parametrize("content", ["", "{", "\xff"])
def test_unreadable_meta_is_rejected(folder, content):
    (folder / "meta.json").write_bytes(content.encode("latin1"))
    assert f"{folder / 'meta.json'}" in (message := opening_error(folder))
    assert message.endswith("Run toolkit-preprocess again.")


@pytest.mark.parametrize("content", ["{}", '{"format": "of another program"}'])
def test_foreign_meta_is_rejected(folder, content):
    (folder / "meta.json").write_text(content)
    assert "must be written by toolkit-preprocess, but is another file. Correct" in opening_error(
        folder
    )


def test_edited_meta_is_rejected(folder):
    meta = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(meta.replace('"items": 3', '"items": 2'))
    assert "must match its own digest, but was damaged or edited" in opening_error(folder)


def test_later_meta_version_is_reported(folder):
    rewrite(folder, version=3)
    assert "has format version 3, but this version of the toolkit reads 2" in opening_error(folder)


@pytest.mark.parametrize("name", ["dict.txt", "tokenizer_config.json", "sentencepiece.model"])
def test_a_damaged_or_missing_tokenizer_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert f"{folder / name} must match its digest in meta.json" in opening_error(folder)
    (folder / name).unlink()
    assert f"{folder / name} must be readable, but is not" in opening_error(folder)


def test_an_older_folder_is_to_be_preprocessed_again(folder):
    rewrite(folder, version=1)
    assert opening_error(folder).endswith("Run toolkit-preprocess again, or upgrade.")


def test_columns_of_another_run_are_rejected(folder, make_folder):
    other = make_folder(TEXT.replace("old", "red"), "other").path
    shutil.copy(other / "train.tokens.crc32.npy", folder)
    assert "comes from another run" in opening_error(folder)
