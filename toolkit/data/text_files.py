"""Tagged files as they are: plain, .gz or .xz, UTF-8 with LF at line ends."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from toolkit.common.errors import ToolkitError

BOM = b"\xef\xbb\xbf"
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


def reject(path: Path, line: int, what: str) -> NoReturn:
    """Raise a ToolkitError that points at a line of a file."""
    raise ToolkitError(f"{path}:{line}: {what}")


def read_strict_text(path: Path) -> tuple[bytes, str]:
    """The bytes of a tagged file and their text, which must be UTF-8 with LF and without BOM."""
    data = read_unpacked(path)
    if not data.strip():
        reject(path, 1, "the file must hold sentences, but is empty. Give another file.")
    if data.startswith(BOM):
        reject(
            path,
            1,
            "the file must begin with its first sentence, but begins with a byte order mark. "
            "Save it as UTF-8 without BOM.",
        )
    if b"\r" in data:
        reject(
            path,
            data.count(b"\n", 0, data.index(b"\r")) + 1,
            "lines must end in LF alone, but this one has a carriage return (CRLF, as Windows "
            "writes it). Convert the file, for instance with sed 's/\\r$//'.",
        )
    return data, decode_utf8(path, data)


def read_unpacked(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return UNPACK.get(path.suffix, bytes)(data)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error}. Copy it again, or correct the path."
        ) from error


def decode_utf8(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        reject(
            path,
            data.count(b"\n", 0, error.start) + 1,
            f"the file must be UTF-8, but has byte 0x{data[error.start]:02x} at column "
            f"{error.start - begin + 1}. Convert it, for instance with iconv -f {encoding} "
            f"-t utf-8.",
        )
    if "\0" in text:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        reject(path, line, "the file must be text, but has a NUL byte. Convert it to UTF-8.")
    return text


CHUNK_BYTES = 1 << 20
TEXT_SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
DECOMPRESSORS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
DECOMPRESSION_ERRORS = (gzip.BadGzipFile, EOFError, lzma.LZMAError, zlib.error)
"""What they raise where a file is cut off or damaged."""
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class FileChunk(NamedTuple):
    """A file, or whole lines of it that one worker reads."""

    path: Path
    start: int
    """First byte; cuts lie behind line ends."""
    end: int
    """Byte behind the last; compressed files are never cut."""
    starts_document: bool
    """Whether its first line begins a document."""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.end - self.start


class _ReadError(Exception):
    """Reading has failed on the way."""


class LineChunk(NamedTuple):
    """Consecutive lines of a piece, stripped, and how far in the file reading has come."""

    lines: list[str]
    read_bytes: int


def is_compressed(path: Path) -> bool:
    return path.suffix in DECOMPRESSORS


def list_files(option: str, given: str) -> list[Path]:
    """The files that a comma-separated option names; a folder stands for the texts in it."""
    files: list[Path] = []
    for name in filter(None, given.split(",")):
        path = Path(name)
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.name.endswith(TEXT_SUFFIXES))
            if not found:
                raise ToolkitError(
                    f"{option} folder {path} must hold files ending in {', '.join(TEXT_SUFFIXES)}, "
                    f"but holds none. Name the files themselves."
                )
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise ToolkitError(
                f"{option} must name existing files, but {path} is not there. Correct the path "
                f"(several are separated by commas, without spaces)."
            )
    for path in files:
        if path.stat().st_size == 0:
            raise ToolkitError(f"{path} must hold text, but is empty. Take it out of {option}.")
    return files


def read_lines(piece: FileChunk, max_line_bytes: int) -> Iterator[LineChunk]:
    """The piece in chunks of whole lines, ends stripped; blank lines come as empty strings."""
    number, rest = 0, b""
    try:
        for chunk, read_bytes in _chunks(piece):
            data = rest + chunk
            cut = data.rfind(b"\n") + 1
            data, rest = data[:cut], data[cut:]
            if data:
                yield LineChunk(_decode(piece, data, number, max_line_bytes), read_bytes)
                number += data.count(b"\n")
            if len(rest) > max_line_bytes:
                _raise_long_line(piece, number, len(rest), max_line_bytes)
    except _ReadError as error:
        fail_at_line(
            piece,
            number,
            f"be readable, but is not ({error}): the file is truncated or damaged. Copy or pack it "
            f"again",
        )
    if rest:
        yield LineChunk(_decode(piece, rest, number, max_line_bytes), piece.size)


def read_text(path: Path) -> str:
    """A short file such as a dictionary, checked as text is; without BOM."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ToolkitError(f"{path} must be readable, but is not: {error.strerror}.") from error
    if not data:
        raise ToolkitError(f"{path} must hold text, but is empty. Give another file.")
    return _text(FileChunk(path, 0, len(data), True), data.removeprefix(_BOM), 0)


@contextmanager
def _open(path: Path) -> Iterator[tuple[BufferedIOBase, BufferedIOBase]]:
    """The text, and the file itself, whose position says how far reading has come."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise ToolkitError(f"{path} must be readable, but is not: {error.strerror}.") from error
    with raw:
        reader = DECOMPRESSORS.get(path.suffix, nullcontext)
        with reader(raw) as text:
            yield text, raw


def _chunks(piece: FileChunk) -> Iterator[tuple[bytes, int]]:
    """The text's bytes without BOM, and how many bytes of the file have been read."""
    compressed = is_compressed(piece.path)
    with _open(piece.path) as (text, raw):
        raw.seek(piece.start)
        first = piece.start == 0
        while compressed or raw.tell() < piece.end:
            most = CHUNK_BYTES if compressed else min(CHUNK_BYTES, piece.end - raw.tell())
            chunk = _read(text, most)
            if not chunk:
                return
            yield chunk.removeprefix(_BOM) if first else chunk, raw.tell() - piece.start
            first = False


def _read(text: BufferedIOBase, most: int) -> bytes:
    try:
        return text.read(most)
    except (OSError, *DECOMPRESSION_ERRORS) as error:
        raise _ReadError(error) from error


def _text(piece: FileChunk, data: bytes, number: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        encoding = "utf-16" if data[:2] in _UTF16 and error.start == 0 else "latin1"
        fail_at_line(
            piece,
            number + data.count(b"\n", 0, error.start),
            f"be UTF-8 text, but has byte 0x{data[error.start]:02x} at column "
            f"{error.start - begin + 1}. Convert the file, for instance with iconv -f "
            f"{encoding} -t utf-8",
        )
    if "\0" in text:
        fail_at_line(
            piece,
            number + data.count(b"\n", 0, data.index(b"\0")),
            "be text, but has a NUL byte. The file is binary or UTF-16: convert it to UTF-8",
        )
    return text


def _decode(piece: FileChunk, data: bytes, number: int, max_line_bytes: int) -> list[str]:
    text = _text(piece, data, number)
    lines = text.split("\n")
    if len(max(lines, key=len)) * 4 > max_line_bytes:
        for place, line in enumerate(lines):
            size = len(line.encode())
            if size > max_line_bytes:
                _raise_long_line(piece, number + place, size, max_line_bytes)
    if text.endswith("\n"):
        lines.pop()
    return [line.strip() for line in lines]


def _raise_long_line(piece: FileChunk, number: int, size: int, most: int) -> NoReturn:
    fail_at_line(
        piece,
        number,
        f"have at most {most} bytes, but has {size} or more. Break the line into sentences, or "
        f"raise --max-line-bytes",
    )


def fail_at_line(piece: FileChunk, number: int, rule: str) -> NoReturn:
    """Raise with the line's number in the whole file, also where the piece begins inside it."""
    with piece.path.open("rb") as file:
        left = piece.start
        while left > 0:
            chunk = file.read(min(CHUNK_BYTES, left))
            number, left = number + chunk.count(b"\n"), left - len(chunk)
    raise ToolkitError(f"{piece.path}:{number + 1} must {rule}.")
