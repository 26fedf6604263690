import re
from dataclasses import replace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.header import HEADER_BYTES, Header, read_header

HEADER = Header(
    role="bin", dtype="<u2", items=3, elements=4, documents=1, payload_bytes=8, table_crc=7,
    fingerprint="ab" * 32,
)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.tokens.0.bin"
    path.write_bytes(HEADER.pack() + b"\0" * 12)
    return path


def test_a_header_is_read_as_it_was_written(file):
    assert len(HEADER.pack()) == HEADER_BYTES
    assert read_header(file) == HEADER


def test_flipped_bits_all_over_a_header_are_noticed(file):
    whole = file.read_bytes()
    for bit in range(0, 8 * HEADER_BYTES, 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ToolkitError, match="must"):
            read_header(file)


@pytest.mark.parametrize("size", [HEADER_BYTES, HEADER_BYTES + 11, HEADER_BYTES + 13])
def test_truncated_or_grown_file_is_recognized_by_its_size(file, size):
    file.write_bytes(file.read_bytes().ljust(size, b"\0")[:size])
    with pytest.raises(ToolkitError, match=f"must have 140 bytes, but has {size}"):
        read_header(file)


@pytest.mark.parametrize("content", [b"", b"\x89TKCOL\r\n", b"MMIDIDX\0\0" * 40])
def test_empty_cut_or_foreign_file_is_recognized_by_its_start(file, content):
    file.write_bytes(content)
    with pytest.raises(ToolkitError, match="must start with a column header"):
        read_header(file)


def test_later_header_version_is_reported(file, monkeypatch):
    monkeypatch.setattr("toolkit.data.storage.header.VERSION", 2)
    file.write_bytes(HEADER.pack() + b"\0" * 12)
    monkeypatch.setattr("toolkit.data.storage.header.VERSION", 1)
    with pytest.raises(ToolkitError, match="has format version 2, but this toolkit reads 1"):
        read_header(file)


def test_non_numeric_type_is_rejected(file):
    file.write_bytes(replace(HEADER, dtype="|O").pack() + b"\0" * 12)
    with pytest.raises(
        ToolkitError, match=r"types <u1, <u2, <i4, <i8, <f4, but its header says '\|O'"
    ):
        read_header(file)


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "train.tokens.0.bin"
    with pytest.raises(ToolkitError, match=re.escape(f"{path} must be readable")):
        read_header(path)
