import pytest

from tests.data.fairseq_files import write_folder
from toolkit.common.errors import ToolkitError
from toolkit.data.folder import DataFolder

WORDS = ["the", "cat", "sat", "on", "mat"]
LINES = ["the cat sat", "on the mat", "", "the dog sat"]


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data-bin", WORDS, {"train": LINES, "valid": LINES[:2]})


def refusal(folder):
    with pytest.raises(ToolkitError) as caught:
        DataFolder.open(folder)
    return str(caught.value)


def test_a_folder_of_fairseq_opens_as_it_is(folder):
    found = DataFolder.open(folder)
    assert (found.kind, found.splits) == ("text", ["train", "valid"])
    column = found.split("train").column("tokens")
    assert (column.items, column.documents, column.elements) == (3, 2, 9)
    assert len(found.vocabulary) == 4 + 5 + 1
    (part,) = column.parts
    assert found.codec.decode(part.values[:3].tolist()) == "the cat sat"


def test_further_files_of_training_are_one_split_in_order_of_number(folder):
    for number in (10, 2, 1):
        write_folder(folder, WORDS, {f"train{number}": LINES, f"valid{number}": LINES})
    found = DataFolder.open(folder)
    assert found.splits == ["train", "valid", "valid1", "valid10", "valid2"]
    names = [part.files[0].name for part in found.split("train").column("tokens").parts]
    assert names == ["train.bin", "train1.bin", "train2.bin", "train10.bin"]


def test_the_fingerprint_is_that_of_the_content_not_of_the_place(folder, tmp_path):
    same = write_folder(tmp_path / "same", WORDS, {"train": LINES, "valid": LINES[:2]})
    other = write_folder(tmp_path / "other", WORDS, {"train": LINES[::-1], "valid": LINES[:2]})
    prints = [DataFolder.open(f).fingerprint for f in (folder, same, other)]
    assert prints[0] == prints[1] != prints[2]


def test_parallel_data_is_refused_for_now(folder):
    for ending in ("bin", "idx"):
        (folder / f"train.{ending}").rename(folder / f"train.en-de.en.{ending}")
    assert "holds train.en-de.en.idx: parallel data cannot be read yet" in refusal(folder)


def test_a_folder_without_a_dictionary_is_refused(folder):
    (folder / "dict.txt").unlink()
    assert "must hold fairseq's dict.txt beside its .idx files" in refusal(folder)


def test_folders_of_two_dictionaries_are_refused(folder, tmp_path):
    other = write_folder(tmp_path / "other", WORDS[::-1], {"train": LINES})
    with pytest.raises(ToolkitError, match="data folders must agree on their vocabulary"):
        DataFolder.open(folder, other)
