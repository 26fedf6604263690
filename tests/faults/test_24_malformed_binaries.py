"""Fault 24: inconsistent data files with correct checksums."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.fairseq_files import index_bytes, write_items
from toolkit.cli.inspect import main
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.column_reader import CheckedColumnPart
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.fairseq import FairseqColumnPart
from toolkit.data.storage.header import HEADER_BYTES, read_header

EXTREMES = [-1, -(2**31), -(2**63), 2**31, 2**62, 2**63 - 1]
FIELDS = ["items", "elements", "documents", "payload_bytes"]


@pytest.fixture
def own(tmp_path):
    """The stem of a part of three items, 2 + 1 + 3 values, in our format."""
    writer = ColumnWriter(tmp_path / "train.tokens.0", "<u2")
    lengths, begins = np.array([2, 1, 3]), np.array([True, False, True])
    writer.add(np.arange(6), lengths, begins)
    writer.finish()
    return tmp_path / "train.tokens.0"


@pytest.fixture
def fairseq(tmp_path):
    """The stem of the same part in fairseq's format."""
    write_items(tmp_path / "train", [[7, 8, 2], [2], [9, 2]])
    return tmp_path / "train"


def use_own(stem):
    """Open a part and read all of it, as training would."""
    part = CheckedColumnPart(stem, "train", "tokens")
    part.take(np.arange(part.elements)[None], part.offsets[:1], part.offsets[-1:])
    return part.document_starts


def use_fairseq(stem):
    part = FairseqColumnPart(stem, "train", symbols=20, sep=2)
    part.take(np.arange(part.elements)[None], part.offsets[:1], part.offsets[-1:])
    return part.document_starts


def refused(use, stem):
    """Assert that using it ends in a user error and allocates almost no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ToolkitError) as caught:
            use(stem)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    return str(caught.value)


def sealed(stem, ending, payload=None, **fields):
    """Give a column file another header or payload, with correct checksums."""
    path = stem.with_name(f"{stem.name}.{ending}")
    header = read_header(path)
    old = path.read_bytes()[HEADER_BYTES:][: header.payload_bytes]
    payload = old if payload is None else payload
    table = struct.pack("<I", zlib.crc32(payload))
    header = replace(header, table_crc=zlib.crc32(table), **fields)
    path.write_bytes(header.pack() + payload + table)


def test_files_are_readable_before_they_are_damaged(own, fairseq):
    assert use_own(own).tolist() == [0, 2]
    assert use_fairseq(fairseq).tolist() == [0, 1]
    sealed(own, "idx"), sealed(own, "bin")
    assert use_own(own).tolist() == [0, 2]


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("endings", [["bin"], ["idx"], ["bin", "idx"]], ids="+".join)
def test_impossible_counts_in_a_column_header_are_rejected(own, endings, field, value):
    for ending in endings:
        sealed(own, ending, **{field: value})
    message = refused(use_own, own)
    assert "must have sizes that fit together" in message or f"must agree on {field}" in message


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("place", range(6))
def test_impossible_offsets_in_a_column_index_are_rejected(own, place, value):
    numbers = [0, 2, 3, 6, 0, 2]
    numbers[place] = value
    sealed(own, "idx", struct.pack("<6q", *numbers))
    assert "must hold rising offsets" in (found := refused(use_own, own)) or (
        "must list rising first items of documents" in found
    )


@pytest.mark.parametrize("field", [{"role": "xyz"}, {"dtype": "|O"}, {"dtype": "\u00ff"}])
def test_unknown_roles_and_types_are_rejected(own, field):
    name, value = next(iter(field.items()))
    path = own.with_name(f"{own.name}.bin")
    content = bytearray(path.read_bytes()[: HEADER_BYTES - 4])
    at = {"role": 8, "dtype": 12}[name]
    content[at : at + 4] = value.encode("latin1").ljust(4, b"\0")
    rest = path.read_bytes()[HEADER_BYTES:]
    path.write_bytes(bytes(content) + struct.pack("<I", zlib.crc32(content)) + rest)
    assert str(path) in refused(use_own, own)


@pytest.mark.parametrize("magic", [b"\0" * 8, b"MMIDIDX\0", b"PK\3\4abcd", b""])
@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_wrong_magic_bytes_are_rejected(own, ending, magic):
    path = own.with_name(f"{own.name}.{ending}")
    path.write_bytes(magic + path.read_bytes()[len(magic) or 10**9 :])
    assert "must start with a column header" in refused(use_own, own)


@pytest.mark.parametrize("items", [0, 2, 4, 2**31, 2**61, 2**63, 2**64 - 1])
def test_impossible_counts_in_a_fairseq_index_are_rejected(fairseq, items):
    content = bytearray(index_bytes([3, 1, 2]))
    content[18:26] = struct.pack("<Q", items)
    fairseq.with_suffix(".idx").write_bytes(content)
    assert "train.idx must" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("value", [-1, -(2**31), 2**31 - 1, 0])
@pytest.mark.parametrize("place", range(3))
def test_impossible_lengths_in_a_fairseq_index_are_rejected(fairseq, place, value):
    content = bytearray(index_bytes([3, 1, 2]))
    content[26 + 4 * place : 30 + 4 * place] = struct.pack("<i", value)
    fairseq.with_suffix(".idx").write_bytes(content)
    assert "train.idx must" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("place", range(3))
def test_impossible_pointers_in_a_fairseq_index_are_rejected(fairseq, place, value):
    content = bytearray(index_bytes([3, 1, 2]))
    content[38 + 8 * place : 46 + 8 * place] = struct.pack("<q", value)
    fairseq.with_suffix(".idx").write_bytes(content)
    assert "train.idx must" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("code", [0, 6, 7, 11, 255])
def test_non_integer_types_in_a_fairseq_index_are_rejected(fairseq, code):
    content = bytearray(index_bytes([3, 1, 2]))
    content[17] = code
    fairseq.with_suffix(".idx").write_bytes(content)
    assert f"has version 1 and type {code}" in refused(use_fairseq, fairseq)


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_truncated_fairseq_files_are_rejected(fairseq, ending):
    path = fairseq.with_suffix(f".{ending}")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(use_fairseq, fairseq)


def test_command_reports_malformed_data_in_one_line(fairseq, capsys):
    (fairseq.parent / "dict.txt").write_text("the 1\n")
    fairseq.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + b"\xff" * 60)
    assert main([str(fairseq.parent)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
