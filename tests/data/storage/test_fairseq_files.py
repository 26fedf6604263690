import struct

import numpy as np
import pytest

from tests.helpers.fairseq_files import CODES, index_bytes, value_bytes, write_items
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.column_files import Column
from toolkit.data.storage.fairseq import FairseqColumnPart

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
        FairseqColumnPart(path.with_suffix(""), "train", symbols=20, sep=EOS).read_sizes()
    return str(caught.value)


@pytest.mark.parametrize("dtype", CODES)
def test_every_integer_type_is_read(tmp_path, dtype):
    write_items(tmp_path / "train", ITEMS, dtype)
    found = FairseqColumnPart(tmp_path / "train", "train", symbols=20, sep=EOS)
    assert (found.dtype, found.listed, found.listed_elements) == (np.dtype(dtype), 3, 6)
    assert found.read_sizes().tolist() == [3, 1, 2]


@pytest.mark.parametrize(("version", "code"), [(2, 8), (1, 6), (1, 7), (1, 0), (1, 255)])
def test_unknown_versions_and_types_are_rejected(files, version, code):
    index = header(version, code) + index_bytes([3, 1, 2])[26:]
    assert f"but has version {version}, type {code}, " in refusal(files(index))


EOS = 2


@pytest.fixture
def part(tmp_path):
    def open_part(*items, dtype="u2"):
        write_items(tmp_path / "train", items, dtype)
        return FairseqColumnPart(tmp_path / "train", "train", symbols=20, sep=EOS)

    return open_part


def sentences(part):
    """Each item's values, read one by one."""
    edges = zip(part.offsets[:-1], part.offsets[1:], strict=True)
    rows = [(np.arange(b, e)[None], np.array([b]), np.array([e])) for b, e in edges]
    return [Column("tokens", [part]).take(*row)[0].tolist() for row in rows]


def test_fairseq_part_drops_eos_and_ends_documents_at_blank_lines(part):
    found = part([7, 8, EOS], [9, EOS], [EOS], [EOS], [10, 11, 12, EOS], [EOS])
    assert sentences(found) == [[7, 8], [9], [10, 11, 12]]
    assert found.document_starts.tolist() == [0, 2]
    assert (found.items, found.elements, found.documents) == (3, 6, 2)


def test_fairseq_part_without_eos_is_read_as_it_is(part):
    found = part([7, 8], [9], [], [10])
    assert sentences(found) == [[7, 8], [9], [10]]
    assert found.document_starts.tolist() == [0, 2]


@pytest.mark.parametrize(("wrong", "dtype"), [(20, "u2"), (-1, "i4"), (2**64 - 1, "u8")])
def test_an_id_outside_the_vocabulary_is_named_with_its_item(part, wrong, dtype):
    found = part([7, EOS], [EOS], [8, wrong, EOS], dtype=dtype)
    with pytest.raises(ToolkitError, match=r"item 2 of .*train.bin .* must hold ids below 20"):
        sentences(found)


def test_items_with_and_without_eos_cannot_be_mixed(part):
    with pytest.raises(ToolkitError, match=r"item 1 of .* must end in </s> like the others"):
        part([7, EOS], [8, 9], [10, EOS]).offsets  # noqa: B018


def test_check_all_finds_a_missing_eos(part):
    items = [[7, EOS]] * 5000
    items[3333] = [7, 8]
    with pytest.raises(ToolkitError, match=r"item 3333 of .* must end in </s>, but does not"):
        part(*items).check_all()
