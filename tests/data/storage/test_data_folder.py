import json
import shutil

import numpy as np
import pytest

from tests.helpers.data_folders import opening_error
from tests.helpers.fairseq_files import write_folder
from tests.helpers.signed_files import sign_json
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.column_files import Column
from toolkit.data.storage.data_folder import Corpora, DataFolder, MemoryPart

from .conftest import TEXT


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


def rewrite(folder, **changes):
    meta = {**json.loads((folder / "meta.json").read_text()), **changes}
    sign_json(folder / "meta.json", meta)


def test_missing_folder_and_missing_meta_are_distinguished(tmp_path):
    assert "No such data folder" in opening_error(tmp_path / "nowhere")
    assert "must be a data folder, but has no meta.json" in opening_error(tmp_path)
    with pytest.raises(ToolkitError, match="a data folder is required"):
        Corpora.open()


def test_edited_meta_is_rejected(folder):
    meta = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(meta.replace('"items": 3', '"items": 2'))
    assert "must match its own digest, but was damaged or edited" in opening_error(folder)


def test_later_meta_version_is_reported(folder):
    rewrite(folder, version=3)
    assert "version 2, but is of toolkit data folder 3" in opening_error(folder)


@pytest.mark.parametrize("name", ["dict.txt", "tokenizer_config.json", "sentencepiece.model"])
def test_a_damaged_or_missing_tokenizer_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert f"{folder / name} must match its digest in meta.json" in opening_error(folder)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        DataFolder.open(folder)


def test_any_range_of_a_column_is_read_across_its_parts():
    values, lengths = np.arange(10, dtype="<u2"), [np.array([2, 1]), np.array([]), np.array([4, 3])]
    parts = [MemoryPart(values[:3], lengths[0]), MemoryPart(values[3:3], lengths[1])]
    column = Column("tokens", [*parts, MemoryPart(values[3:], lengths[2])])
    ranges = [(low, high) for low in range(11) for high in range(low, 11)]
    assert all(column.read(*it).tolist() == list(range(*it)) for it in ranges)
