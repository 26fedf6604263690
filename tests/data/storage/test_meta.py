import json
import shutil

import pytest

from tests.helpers.data_folders import opening_error
from tests.helpers.signed_files import sign_json
from toolkit.data.storage.data_folder import DataFolder

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
    rewrite(folder, version=2)
    assert "has format version 2, but this toolkit reads 1" in opening_error(folder)


@pytest.mark.parametrize("name", ["dict.txt", "tokenizer_config.json", "sentencepiece.model"])
def test_a_damaged_or_missing_tokenizer_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert f"{folder / name} must match its digest in meta.json" in opening_error(folder)
    (folder / name).unlink()
    assert f"{folder / name} must be readable, but is not" in opening_error(folder)


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_a_missing_or_truncated_column_is_named(folder, ending):
    file = folder / f"train.tokens.0.{ending}"
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file} must have" in opening_error(folder)
    file.unlink()
    assert f"{file} must be readable, but is not" in opening_error(folder)


def test_columns_of_another_run_are_rejected(folder, make_folder):
    other = make_folder(TEXT.replace("old", "red"), "other").path
    for ending in ("bin", "idx"):
        shutil.copy(other / f"train.tokens.0.{ending}", folder)
    assert "must be those that meta.json lists, but their" in opening_error(folder)


def test_columns_of_another_vocabulary_are_rejected(folder):
    meta = json.loads((folder / "meta.json").read_text())
    rewrite(folder, vocabulary={**meta["vocabulary"], "fingerprint": "ab" * 32})
    assert "must be written with the vocabulary of its folder" in opening_error(folder)


def test_paths_in_meta_cannot_leave_the_folder(folder):
    meta = json.loads((folder / "meta.json").read_text())
    part = meta["splits"]["train"]["columns"]["tokens"]["parts"][0]
    part["stem"] = "../../elsewhere/train.tokens.0"
    rewrite(folder, splits=meta["splits"])
    assert DataFolder.open(folder).split("train").items == 3
