import shutil

import pytest

from tests.helpers.data_folders import opening_error
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder

from .conftest import TEXT


def test_data_folder_reports_kind_splits_and_items(folder):
    found = DataFolder.open(folder)
    assert (found.kind, found.splits, found.split("train").items) == ("text", ["train"], 3)


def test_fingerprint_depends_on_the_content_not_on_the_path(folder, tmp_path, make_folder):
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert DataFolder.open(moved).fingerprint == DataFolder.open(folder).fingerprint
    other = make_folder(TEXT.replace("old", "red"), "other")
    assert other.fingerprint != DataFolder.open(folder).fingerprint


def test_an_unknown_split_is_answered_with_the_known_ones(folder):
    with pytest.raises(ToolkitError, match=r"no split of \S+ is called 'valid'. Known: train."):
        DataFolder.open(folder).split("valid")
    with pytest.raises(ToolkitError, match=r"writes it with --validpref or --valid-fraction\.$"):
        DataFolder.open(folder).split("valid")
    with pytest.raises(ToolkitError, match=r"toolkit-preprocess writes it with --testpref\.$"):
        DataFolder.open(folder).split("test")
    with pytest.raises(ToolkitError, match=r"is called 'dev'. Known: train\.$"):
        DataFolder.open(folder).split("dev")


def test_missing_column_is_named(folder):
    with pytest.raises(ToolkitError, match="has no column 'tags', only tokens"):
        DataFolder.open(folder).split("train").column("tags")


def test_folders_of_one_vocabulary_are_read_as_one(folder, make_folder):
    other = make_folder("the small river\n", "other")
    both = DataFolder.open(folder, other.path)
    column = both.split("train").column("tokens")
    assert (column.items, len(column.parts)) == (4, 2)
    assert both.fingerprint not in (DataFolder.open(folder).fingerprint, other.fingerprint)


def test_folders_with_different_vocabularies_are_rejected(
    folder, make_folder, tmp_path, random_prose
):
    other = make_folder(random_prose(99), "other", sentencepiece_model=None, vocab_size=40)
    assert "data folders must agree on their vocabulary" in opening_error(folder, other.path)
