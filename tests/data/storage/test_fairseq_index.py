import struct

import numpy as np
import pytest

from tests.helpers.fairseq_files import CODES, index_bytes, value_bytes, write_items
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.fairseq_files import read_index

ITEMS = [[7, 8, 2], [2], [9, 2]]


@pytest.fixture
def files(tmp_path):
    """Writes the two files; bytes given stand in place of those of ITEMS."""

    def write(index=None, values=None):
        (tmp_path / "train.idx").write_bytes(index_bytes([3, 1, 2]) if index is None else index)
        (tmp_path / "train.bin").write_bytes(value_bytes(ITEMS) if values is None else values)
        return tmp_path / "train.idx"

    return write


def header(version=1, code=8, items=3):
    return b"MMIDIDX\0\0" + struct.pack("<QBQ", version, code, items)


def refusal(path):
    with pytest.raises(ToolkitError) as caught:
        read_index(path).sizes()
    return str(caught.value)


@pytest.mark.parametrize("dtype", CODES)
def test_every_integer_type_is_read(tmp_path, dtype):
    write_items(tmp_path / "train", ITEMS, dtype)
    found = read_index(tmp_path / "train.idx")
    assert (found.dtype, found.items, found.elements) == (np.dtype(dtype), 3, 6)
    assert found.sizes().tolist() == [3, 1, 2]


def test_the_layout_is_the_described_one():
    assert index_bytes([3, 1]).hex(" ") == (
        "4d 4d 49 44 49 44 58 00 00 01 00 00 00 00 00 00 00 08 02 00 00 00 00 00 00 00 "
        "03 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 06 00 00 00 00 00 00 00"
    )


def test_older_index_format_is_reported(files):
    assert "is in the older format of lazy or cached" in refusal(files(b"TNTIDX\0\0" + b"\0" * 40))


@pytest.mark.parametrize("index", [b"", b"MMIDIDX\0\0", b"\x89TKCOL\r\n" + b"\0" * 200])
def test_foreign_index_file_is_rejected(files, index):
    assert "must start like fairseq's index, but is damaged or another" in refusal(files(index))


@pytest.mark.parametrize(("version", "code"), [(2, 8), (1, 6), (1, 7), (1, 0), (1, 255)])
def test_unknown_versions_and_types_are_rejected(files, version, code):
    index = header(version, code) + index_bytes([3, 1, 2])[26:]
    assert f"but has version {version} and type {code}" in refusal(files(index))


@pytest.mark.parametrize("items", [4, 2, 10**12, 2**61, 2**63, 2**64 - 1])
def test_impossible_number_of_items_is_rejected(files, items):
    index = header(items=items) + index_bytes([3, 1, 2])[26:]
    assert f"must have {26 + 12 * items} bytes for its {items} items" in refusal(files(index))


def test_index_without_items_is_rejected(files):
    assert "must list items, but lists none" in refusal(files(index_bytes([]), b""))


@pytest.mark.parametrize(
    ("lengths", "complaint"),
    [
        ([3, 1, 3], "must end where train.bin does, but its last item has 3 values"),
        ([3, 1, -2], "its last item has -2 values"),
        ([3, 2**31 - 1, 2], "must end where train.bin does"),
    ],
)
def test_items_beyond_the_values_are_rejected_at_opening(files, lengths, complaint):
    path = files(index_bytes(lengths))
    with pytest.raises(ToolkitError, match=complaint):
        read_index(path)


@pytest.mark.parametrize(
    ("lengths", "offsets", "item"),
    [
        ((-1, 5, 2), (0, 6, 8), 0),
        ((3, 1, 2), (0, 2**62, 8), 1),
        ((3, 1, 2), (-8, 6, 8), 0),
        ((3, 1, 2), (0, 4, 8), 1),
        ((2**31 - 1, 1, 2), (0, 6, 8), 1),
    ],
)
def test_items_with_gaps_are_rejected_before_use(files, lengths, offsets, item):
    path = files(header() + struct.pack("<3i", *lengths) + struct.pack("<3q", *offsets))
    assert f"must list items back to back, but item {item} has" in refusal(path)


def test_half_a_value_is_rejected(files):
    assert "must hold values of 2 bytes, but has 11 bytes" in refusal(files(values=b"\0" * 11))


def test_a_missing_file_is_named(files):
    path = files()
    path.with_suffix(".bin").unlink()
    assert "train.bin must be readable, but is not: No such file" in refusal(path)
