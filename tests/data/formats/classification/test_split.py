from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.storage.data_folder import DataFolder

from .conftest import STS


def test_folders_of_one_task_are_read_as_one(folder):
    first = folder()
    second = folder(name="more", tokenizer_from=str(first.path))
    split = ClassificationSplit(DataFolder.open(first.path, second.path), "valid")
    assert split.answers.tolist() == [0, 1, 0, 1] and split.second is not None


def test_folders_of_different_tasks_are_rejected(folder):
    first = folder()
    second = folder(STS, "other", glue_task="STS-B", tokenizer_from=str(first.path))
    with pytest.raises(ToolkitError, match=r"data folders must agree on their task, but .*other"):
        ClassificationSplit(DataFolder.open(first.path, second.path), "train")


def test_text_without_labels_is_rejected(data):
    with pytest.raises(ToolkitError, match=r"must have a folder of labeled texts, but"):
        ClassificationSplit(DataFolder.open(data), "train")
