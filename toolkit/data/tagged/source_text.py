"""Tagged files as they are: plain, .gz or .xz, UTF-8 with LF at line ends."""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.data.tagged.sentences import refuse

BOM = b"\xef\xbb\xbf"
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


def read_source(path: Path) -> tuple[bytes, str]:
    """The bytes of a tagged file and their text, which must be UTF-8 with LF and without BOM."""
    data = unpacked(path)
    if not data.strip():
        refuse(path, 1, "the file must hold sentences, but is empty. Give another file.")
    if data.startswith(BOM):
        refuse(
            path,
            1,
            "the file must begin with its first sentence, but begins with a byte order mark. "
            "Save it as UTF-8 without BOM.",
        )
    if b"\r" in data:
        refuse(
            path,
            data.count(b"\n", 0, data.index(b"\r")) + 1,
            "lines must end in LF alone, but this one has a carriage return (CRLF, as Windows "
            "writes it). Convert the file, for instance with sed 's/\\r$//'.",
        )
    return data, decoded(path, data)


def unpacked(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return UNPACK.get(path.suffix, bytes)(data)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error}. Copy it again, or correct the path."
        ) from error


def decoded(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        refuse(
            path,
            data.count(b"\n", 0, error.start) + 1,
            f"the file must be UTF-8, but has byte 0x{data[error.start]:02x} at column "
            f"{error.start - begin + 1}. Convert it, for instance with iconv -f {encoding} "
            f"-t utf-8.",
        )
    if "\0" in text:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        refuse(path, line, "the file must be text, but has a NUL byte. Convert it to UTF-8.")
    return text
