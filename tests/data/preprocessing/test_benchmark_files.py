from __future__ import annotations

import json

import pytest

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.row_files import WRITERS
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import GLUE_SCHEMAS
from toolkit.data.preprocessing.input_files import list_benchmark_files, list_row_files


@pytest.fixture
def found(tmp_path):
    """Split -> names of its files, of a folder that holds empty files of these names."""

    def call(*names, task="MNLI", **given):
        for name in names:
            (tmp_path / name).touch()
        given = {f"{split}pref": str(tmp_path / name) for split, name in given.items()}
        config = preprocess_config(format="glue", glue_task=task, **given)
        files = list_benchmark_files(config.inputs, GLUE_SCHEMAS[task].files)
        return {s: [p.name for p in paths] for s, paths in files.items()}

    return call


def test_folder_as_trainpref_alone_stands_for_all_splits(found):
    assert found("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv", train=".") == {
        "train": ["train.tsv"],
        "valid": ["dev_matched.tsv"],
        "valid_mismatched": ["dev_mismatched.tsv"],
    }


def test_files_of_mismatched_genres_are_recognized_by_name(found):
    assert found("a.tsv", "my_mismatched.tsv", test="my_mismatched.tsv") == {
        "test_mismatched": ["my_mismatched.tsv"]
    }


def test_original_files_of_mrpc_and_compressed_files_are_found(found):
    names = found("msr_paraphrase_train.txt", "dev.tsv.gz", task="MRPC", train=".")
    assert names == {"train": ["msr_paraphrase_train.txt"], "valid": ["dev.tsv.gz"]}


def test_folder_without_the_file_is_rejected(found):
    with pytest.raises(ToolkitError, match=r"trainpref folder .* must hold train.tsv, but does"):
        found("dev.tsv", task="RTE", train=".")


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


@pytest.mark.parametrize(
    "state", ["{", "[]", "{}", '{"_data_files": [1]}', '{"_data_files": [{"filename": "../a"}]}']
)
def test_damaged_descriptions_of_a_saved_dataset_are_reported(tmp_path, state):
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(ToolkitError, match=r"state\.json: .*\. Name the files themselves\.$"):
        list_row_files("train", str(tmp_path))
