from __future__ import annotations

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS
from toolkit.data.preprocessing.input_files import list_benchmark_files


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


def test_folder_given_with_other_options_stands_for_its_split(found):
    names = found("train.tsv", "dev.tsv", "x.tsv", task="RTE", train=".", valid="x.tsv")
    assert names == {"train": ["train.tsv"], "valid": ["x.tsv"]}


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


def test_missing_file_is_rejected(found):
    with pytest.raises(ToolkitError, match=r"No such file: .*x.tsv \(validpref\)"):
        found(valid="x.tsv")


def test_diagnostic_set_has_no_training_file(found):
    with pytest.raises(ToolkitError, match=r"a file of that split, which this task does not have"):
        found("diagnostic.tsv", task="AX", train=".")
