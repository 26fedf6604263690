import pytest

from tests.helpers.fairseq_files import write_folder
from toolkit.commands.inspect import describe_data, format_table, to_text
from toolkit.common.errors import ToolkitError


@pytest.fixture
def folder(make_folder, random_prose):
    return str(make_folder(random_prose(100), valid_fraction=0.2).path)


@pytest.fixture
def fairseq(tmp_path):
    lines = ["the cat sat", "the dog", "", "a cat on a mat sat", "the cat"]
    words = ["the", "cat", "sat", "a"]
    return str(write_folder(tmp_path / "fs", words, {"train": lines, "valid": lines[:2]}))


def table(description):
    """Split -> column -> cell."""
    head, *rows = [line.split() for line in format_table(description[1]).splitlines()]
    return {row[0]: dict(zip(head, row, strict=False)) for row in rows}


def test_describe_data_gives_preprocessing_options_and_splits(folder):
    found = describe_data(folder)
    assert found[0]["kind"] == "text"
    assert "segment_by lines, valid_fraction 0.2" in found[0]["made with"]
    assert to_text(found[0]["tokenizer"]) == "kind sentencepiece"
    rows = table(found)
    assert set(rows) == {"train", "valid"} and int(rows["train"]["items"]) == 84
    assert "verified" not in found[0] and not found[2]


def test_describe_data_gives_mean_median_and_maximum_length(fairseq):
    row = table(describe_data(fairseq))["train"]
    names = ("documents", "items", "tokens", "mean", "median", "longest")
    assert [row[name] for name in names] == ["2", "4", "13", "3.2500", "2", "6"]


def test_describe_data_shows_evenly_spaced_items_as_text(fairseq):
    items = describe_data(fairseq, examples=3)[2]
    assert items == {
        "train 0": "the cat sat",
        "train 1": "the <unk>",
        "train 3": "the cat",
        "valid 0": "the cat sat",
        "valid 1": "the <unk>",
    }


def test_describe_data_verifies_every_byte(folder, fairseq, tmp_path):
    own, other = (describe_data(it, verify=True)[0]["verified"] for it in (folder, fairseq))
    assert own.endswith("read, all checksums match")
    assert other.endswith("all offsets and ids are valid")
    file = tmp_path / "data" / "valid.tokens.npy"
    content = bytearray(file.read_bytes())
    content[130] ^= 1
    file.write_bytes(content)
    describe_data(folder, examples=0)
    with pytest.raises(ToolkitError, match=r"valid.tokens.npy .* MiB 0, which holds item 0, is da"):
        describe_data(folder, verify=True)
