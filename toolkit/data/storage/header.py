"""The 128-byte header of a .bin or .idx file, protected by its own CRC32."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.data.storage.checksums import BLOCK_BYTES

MAGIC = b"\x89TKCOL\r\n"
VERSION = 1
HEADER_BYTES = 128
DTYPES = ("<u1", "<u2", "<i4", "<i8", "<f4")
NO_FINGERPRINT = "0" * 64

_LAYOUT = struct.Struct("<8s4s4sIIqqqqII32s")
_REMEDY = "Copy the folder again, or run toolkit-preprocess again."


@dataclass(frozen=True, kw_only=True)
class Header:
    """The fields of a header."""

    role: str
    """bin (values) or idx (starts of items and documents)."""
    dtype: str
    """NumPy's name of the values' type."""
    items: int
    elements: int
    documents: int
    payload_bytes: int
    table_crc: int
    """CRC32 of the table of block checksums at the end of the file."""
    fingerprint: str
    """Of the vocabulary that the values are ids of, 64 hexadecimal digits; zeros for none."""

    @property
    def file_bytes(self) -> int:
        return HEADER_BYTES + self.payload_bytes + 4 * -(-self.payload_bytes // BLOCK_BYTES)

    @property
    def consistent(self) -> bool:
        """Whether the counts are possible and the payload has the length that they imply."""
        if min(self.items, self.elements, self.documents) < 0:
            return False
        width = int(self.dtype[2:])
        index_values = self.items + 1 + self.documents
        payload = 8 * index_values if self.role == "idx" else 8 * -(-self.elements * width // 8)
        return self.payload_bytes == payload

    def pack(self) -> bytes:
        fields = _LAYOUT.pack(
            MAGIC,
            self.role.encode(),
            self.dtype.encode(),
            VERSION,
            BLOCK_BYTES,
            self.items,
            self.elements,
            self.documents,
            self.payload_bytes,
            self.table_crc,
            0,
            bytes.fromhex(self.fingerprint),
        )
        body = fields.ljust(HEADER_BYTES - 4, b"\0")
        return body + struct.pack("<I", zlib.crc32(body))


def read_header(path: Path) -> Header:
    """Read and check 128 bytes: magic, checksum, version, counts, and the size of the file."""
    try:
        with open_regular(path) as file:
            head = file.read(HEADER_BYTES)
            size = file.seek(0, 2)
    except OSError as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error.strerror}. {_REMEDY}"
        ) from error
    if head[: len(MAGIC)] != MAGIC or len(head) < HEADER_BYTES:
        raise ToolkitError(
            f"{path} must start with a column header of this toolkit, but does not: it is damaged, "
            f"empty or another program's. {_REMEDY}"
        )
    if struct.unpack("<I", head[-4:])[0] != zlib.crc32(head[:-4]):
        raise ToolkitError(f"{path} must match its header's checksum, but is damaged. {_REMEDY}")
    _, role, dtype, version, block, *numbers, _, fingerprint = _LAYOUT.unpack(head[: _LAYOUT.size])
    if version != VERSION or block != BLOCK_BYTES:
        raise ToolkitError(
            f"{path} has format version {version}, but this toolkit reads {VERSION}. "
            f"Run toolkit-preprocess again, or upgrade."
        )
    names = ("items", "elements", "documents", "payload_bytes", "table_crc")
    header = Header(
        role=role.rstrip(b"\0").decode("ascii", "replace"),
        dtype=dtype.rstrip(b"\0").decode("ascii", "replace"),
        fingerprint=fingerprint.hex(),
        **dict(zip(names, numbers, strict=True)),
    )
    _check_contents(path, header, size)
    return header


def _check_contents(path: Path, header: Header, size: int) -> None:
    if header.dtype not in DTYPES:
        raise ToolkitError(
            f"{path} must hold values of one of the types {', '.join(DTYPES)}, but its header says "
            f"{header.dtype!r}. Run toolkit-preprocess again."
        )
    if not header.consistent:
        raise ToolkitError(
            f"{path} must have sizes that fit together, but its header says {header.items} items "
            f"of {header.elements} values in {header.documents} documents and "
            f"{header.payload_bytes} bytes. {_REMEDY}"
        )
    if size != header.file_bytes:
        raise ToolkitError(
            f"{path} must have {header.file_bytes} bytes, but has {size}: it is truncated or "
            f"still being copied. {_REMEDY}"
        )
