"""Folders of Hugging Face datasets."""

import json

import pytest

from tests.helpers.row_files import WRITERS
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocessing.input_files import list_row_files


def save(folder, files):
    """A folder as Dataset.save_to_disk writes it, with a cache of Dataset.map."""
    folder.mkdir(parents=True)
    for name, texts in {**files, "cache-0123.arrow": ["cached"]}.items():
        WRITERS[".arrow"](folder / name, texts)
    (folder / "dataset_info.json").write_text("{}")
    state = {"_data_files": [{"filename": name} for name in files], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))


def test_saved_datasets_stand_for_their_files_without_caches(tmp_path):
    save(tmp_path / "saved", {"data-00000-of-00002.arrow": ["a"], "data-00001-of-00002.arrow": []})
    found = list_row_files("train", str(tmp_path / "saved"))
    assert [file.name for file in found] == [f"data-0000{n}-of-00002.arrow" for n in range(2)]


def test_saved_datasets_with_splits_stand_for_the_split_of_the_option(tmp_path):
    for split in ("train", "validation"):
        save(tmp_path / "saved" / split, {"data-00000-of-00001.arrow": [split]})
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    (found,) = list_row_files("valid", str(tmp_path / "saved"))
    assert found.parent.name == "validation"
    with pytest.raises(ToolkitError, match=r"has no split test, but has train, validation\."):
        list_row_files("test", str(tmp_path / "saved"))


def test_shards_of_several_splits_are_told_apart_by_name(tmp_path):
    names = ["train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"]
    for name in names:
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1")
    found = list_row_files("train", str(tmp_path))
    assert [file.stem for file in found] == names[:2]
    found = list_row_files("valid", str(tmp_path))
    assert [file.stem for file in found] == names[2:]


def test_other_files_in_a_folder_are_all_read(tmp_path):
    for name in ("train-00000-of-00001.jsonl", "more.jsonl"):
        (tmp_path / name).write_text("{}")
    assert len(list_row_files("valid", str(tmp_path))) == 2


def test_missing_files_of_a_saved_dataset_are_reported(tmp_path):
    save(tmp_path / "saved", {"data-00000-of-00001.arrow": ["a"]})
    (tmp_path / "saved" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(ToolkitError, match=r"No such file: .*data-00000-of-00001\.arrow"):
        list_row_files("train", str(tmp_path / "saved"))


@pytest.mark.parametrize(
    "state", ["{", "[]", "{}", '{"_data_files": [1]}', '{"_data_files": [{"filename": "../a"}]}']
)
def test_damaged_descriptions_of_a_saved_dataset_are_reported(tmp_path, state):
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(ToolkitError, match=r"state\.json: .*\. Name the files themselves\.$"):
        list_row_files("train", str(tmp_path))
