import pytest

from tests.helpers.fairseq_files import write_folder
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import Corpora

WORDS = ["the", "cat", "sat"]


@pytest.fixture
def folders(tmp_path):
    """Folders a, b, c with one line more in each; a has no valid split, b and c have."""
    for number, name in enumerate("abc", 1):
        splits = {"train": ["the cat sat"] * number, "valid": ["the cat"] * number}
        if name == "a":
            del splits["valid"]
        write_folder(tmp_path / name, WORDS, splits)
    return {name: str(tmp_path / name) for name in "abc"}


def items(folder, split="train"):
    return folder.split(split).column("tokens").items


def joined(folders, *arguments):
    """a:b with the folders' paths in place of their letters."""
    return [":".join(folders[name] for name in argument.split(":")) for argument in arguments]


def test_epochs_cycle_through_the_shards(folders):
    corpora = Corpora.open(*joined(folders, "a:b:c"))
    assert corpora.cycle == 3
    assert [items(corpora.for_epoch(epoch)) for epoch in range(1, 8)] == [1, 2, 3, 1, 2, 3, 1]


def test_each_corpus_cycles_through_its_own_shards(folders):
    corpora = Corpora.open(*joined(folders, "a:b", "c"))
    assert [items(corpora.for_epoch(epoch)) for epoch in (1, 2, 3)] == [1 + 3, 2 + 3, 1 + 3]
    three = Corpora.open(*joined(folders, "a:b", "c", "c:a"))
    assert [items(folder) for folder in three.prefixes(2)] == [2, 2 + 3]
    assert Corpora.open(*joined(folders, "a:b", "a:b:c")).cycle == 6


def test_validation_is_on_the_first_shard_that_has_it(folders):
    assert items(Corpora.open(*joined(folders, "a:c:b")).with_split("valid"), "valid") == 3
    assert items(Corpora.open(*joined(folders, "a:b", "c")).with_split("valid"), "valid") == 2 + 3
    with pytest.raises(ToolkitError, match=r"is called 'test'. Known: train, valid."):
        Corpora.open(*joined(folders, "a:b")).with_split("test").split("test")


def test_shard_without_the_split_is_rejected_at_once(folders):
    corpora = Corpora.open(*joined(folders, "b:a:c"))
    corpora.check_split("train")
    with pytest.raises(ToolkitError, match=r"must have a split 'valid', but \S+/a has none"):
        corpora.check_split("valid")


def test_shards_must_have_one_vocabulary(folders, tmp_path):
    write_folder(tmp_path / "b", WORDS[::-1], {})
    with pytest.raises(ToolkitError, match="data folders must agree on their vocabulary"):
        Corpora.open(*joined(folders, "a:b"))


@pytest.mark.parametrize("arguments", [[], [""], [":"]])
def test_corpora_require_a_folder(arguments):
    with pytest.raises(ToolkitError, match="a data folder is required"):
        Corpora.open(*arguments)
