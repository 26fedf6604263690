"""Raw text files: plain, .gz, .xz or .zst, in UTF-8."""

from __future__ import annotations

import gzip
import importlib
import io
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular

CHUNK_BYTES = 1 << 20


def import_pyarrow(module: str = "") -> ModuleType:
    """pyarrow or one of its modules, imported when first needed."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise ToolkitError(
            "Parquet, Arrow and .zst files require the package pyarrow, which is not installed. "
            "Run pip install 'toolkit-seq[data]'."
        ) from error


def open_zst(file: BinaryIO) -> io.BufferedReader:
    """A decompressed .zst file; damages are OSErrors. The package zstandard misses some."""
    arrow = import_pyarrow()
    stream = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")
    return io.BufferedReader(stream, CHUNK_BYTES)


DECOMPRESSORS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".zst": open_zst}
COMPRESSION_SUFFIXES = ("", *DECOMPRESSORS)
DECOMPRESSION_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Errors of decompressors for truncated or damaged files; their OSErrors have no number."""
BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class FileChunk(NamedTuple):
    """A file, or whole lines of it that one worker reads."""

    path: Path
    start: int
    """First byte, which starts a line."""
    end: int
    """Byte after the last; compressed files are never divided."""
    starts_document: bool
    """Whether its first line starts a document."""
    field: str = ""
    """Field that holds the text of each row; empty for plain text."""
    row_is_document: bool = False
    """Whether each row is a document, or else consecutive lines of one text."""
    max_row_bytes: int = 0
    """Limit of the rows; 0 for that of the readers."""

    @property
    def size(self) -> int:
        return self.end - self.start


def whole_file(path: Path, max_row_bytes: int = 0) -> FileChunk:
    """All of a file."""
    return FileChunk(path, 0, path.stat().st_size, True, max_row_bytes=max_row_bytes)


class LineChunk(NamedTuple):
    """Consecutive lines."""

    lines: list[str]
    numbers: Sequence[int]
    """Where each line is: its line or row in the file chunk, counted from 0."""


LONG_LINE = "expected at most {} bytes in a line, found {} or more."
BREAK_LINE = "Break the line into sentences, or raise --max-line-bytes."

PIECE_ENDS = (b" ", *(mark.encode() for mark in "\u3002\uff01\uff1f"))
"""Where a long line may be cut."""


class TextError(Exception):
    """A fault of the text with what to do about it, and the number of lines before it."""

    def __init__(self, lines_before: int, message: str) -> None:
        super().__init__(message)
        self.lines_before = lines_before


def is_compressed(path: Path) -> bool:
    """Whether the file's ending names a known compression."""
    return path.suffix in DECOMPRESSORS


def strip_compression_suffix(name: str) -> str:
    """a.txt of a.txt.gz."""
    path = Path(name)
    return name.removesuffix(path.suffix) if is_compressed(path) else name


def list_files(
    option: str, names: str, suffixes: Sequence[str] = (".txt",), *, recursive: bool = False
) -> list[Path]:
    """The files that a comma-separated option names, or those with a suffix in its folders."""
    endings = tuple(suffix + packed for suffix in suffixes for packed in COMPRESSION_SUFFIXES)
    files: list[Path] = []
    for name in filter(None, names.split(",")):
        path = check_exists(option, Path(name))
        if path.is_file():
            files.append(path)
            continue
        content = sorted(path.rglob("*") if recursive else path.iterdir())
        matching = [file for file in content if file.name.endswith(endings) and file.is_file()]
        if not matching:
            raise ToolkitError(
                f"{option} folder {path} must hold files ending in {', '.join(suffixes)}, but "
                f"holds none. Name the files themselves."
            )
        files += matching
    for path in files:
        if path.stat().st_size == 0:
            raise ToolkitError(f"{path} must hold text, but is empty. Take it out of {option}.")
    return files


def check_exists(option: str, path: Path) -> Path:
    """The path, which must be a file or a folder."""
    if path.is_file() or path.is_dir():
        return path
    raise ToolkitError(
        f"No such file: {path} ({option}). Correct the path. Separate several by commas or spaces."
    )


def read_lines(
    chunk: FileChunk,
    max_line_bytes: int,
    *,
    strip: bool = True,
    remedy: str = BREAK_LINE,
    divide: bool = False,
) -> Iterator[LineChunk]:
    """The chunk's lines in parts of about 1 MiB; stripped, blank lines are empty strings.

    `remedy` says what to do about a line that is too long. With `divide` it comes in pieces with
    its number, cut at spaces or after full stops of scripts without spaces.
    """
    number, limit = 0, sys.maxsize if divide else max_line_bytes
    try:
        for data in _read_blocks(chunk, max_line_bytes, remedy, divide):
            lines = split_lines(data, limit, strip=strip, remedy=remedy)
            yield LineChunk(lines, range(number, number + len(lines)))
            number += data.count(b"\n")
    except TextError as error:
        line = count_lines_before(chunk) + number + error.lines_before + 1
        raise ToolkitError(f"{chunk.path}:{line}: {error}") from error


def _read_blocks(chunk: FileChunk, max_bytes: int, remedy: str, divide: bool) -> Iterator[bytes]:
    """Blocks of lines without BOM; with `divide`, also of pieces of a long line."""
    rest, bom = b"", BOM if chunk.start == 0 else b""
    left = sys.maxsize if is_compressed(chunk.path) else chunk.size
    try:
        decompress = DECOMPRESSORS.get(chunk.path.suffix, nullcontext)
        with chunk.path.open("rb") as raw, decompress(raw) as text:
            raw.seek(chunk.start)
            while block := text.read(min(CHUNK_BYTES, left)):
                block += text.readline(max_bytes + 1) if len(block) < left else b""
                left -= len(block)
                data, rest, bom = rest + block.removeprefix(bom), b"", b""
                line = data[data.rfind(b"\n") + 1 :]
                if len(line) > max_bytes:
                    ends = [line.rfind(mark) + len(mark) for mark in PIECE_ENDS if mark in line]
                    if not (divide and ends):
                        message = LONG_LINE.format(max_bytes, len(line))
                        raise TextError(data.count(b"\n"), f"{message} {remedy}")
                    rest = line[max(ends) :]
                    data = data[: len(data) - len(rest)]
                yield data
            if rest:
                yield rest
    except DECOMPRESSION_ERRORS as error:
        raise TextError(
            0, f"cannot read further: {error}. The file is truncated or damaged: copy it again."
        ) from error


def read_text(path: Path, *, may_be_empty: bool = False, allow_pipe: bool = False) -> str:
    """The text of a whole file, without BOM."""
    data = read_bytes(path, allow_pipe=allow_pipe)
    if not (data or may_be_empty):
        raise ToolkitError(f"{path} must hold text, but is empty. Give another file.")
    return decode_file(path, data.removeprefix(BOM))


def read_bytes(path: Path, *, allow_pipe: bool = False) -> bytes:
    """The decompressed bytes of a whole file."""
    with open_text(path, allow_pipe=allow_pipe) as text:
        return text.read()


@contextmanager
def open_text(path: Path, *, allow_pipe: bool = False) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file."""
    with (
        open_regular(path, allow_pipe=allow_pipe) as file,
        DECOMPRESSORS.get(path.suffix, nullcontext)(file) as text,
    ):
        try:
            yield text
        except DECOMPRESSION_ERRORS as error:
            if isinstance(error, OSError) and error.errno:  # of another file, in the caller's block
                raise
            raise ToolkitError(
                f"{path} is truncated or damaged: {error}. Copy it again."
            ) from error


def decode_file(path: Path, data: bytes, lines_before: int = 0) -> str:
    """The text of a file, or of its lines after the first `lines_before`."""
    try:
        return _decode(data)
    except TextError as error:
        raise ToolkitError(f"{path}:{lines_before + error.lines_before + 1}: {error}") from error


def split_lines(
    data: bytes, max_line_bytes: int, *, strip: bool = True, remedy: str = BREAK_LINE
) -> list[str]:
    """The lines of a text. Raises TextError."""
    text = _decode(data)
    lines = text.split("\n")
    if len(max(lines, key=len)) * 4 > max_line_bytes:
        for number, line in enumerate(lines):
            if (size := len(line.encode())) > max_line_bytes:
                raise TextError(number, f"{LONG_LINE.format(max_line_bytes, size)} {remedy}")
    if text.endswith("\n"):
        lines.pop()
    return [line.strip() for line in lines] if strip else lines


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        encoding = "utf-16" if data[:2] in UTF16_BOMS and error.start == 0 else "latin1"
        raise TextError(
            data.count(b"\n", 0, error.start),
            f"expected UTF-8, found byte 0x{data[error.start]:02x} at column "
            f"{error.start - line_start + 1}. Convert the file, for instance with iconv -f "
            f"{encoding} -t utf-8.",
        ) from error
    if "\0" in text:
        raise TextError(
            data.count(b"\n", 0, data.index(b"\0")),
            "found a NUL byte: the file is binary or UTF-16. Convert it to UTF-8.",
        )
    return text


def count_lines_before(chunk: FileChunk) -> int:
    """Lines of the file before the chunk."""
    with chunk.path.open("rb") as file:
        starts = range(0, chunk.start, CHUNK_BYTES)
        blocks = (file.read(min(CHUNK_BYTES, chunk.start - start)) for start in starts)
        return sum(block.count(b"\n") for block in blocks)


def read_strict_text(path: Path) -> tuple[bytes, str]:
    """The bytes of an annotated file, and their text as `decode_strict` gives it."""
    data = read_bytes(path)
    if not data.removeprefix(BOM).strip():
        raise ToolkitError(f"{path}:1: the file is empty. Give another file.")
    return data, decode_strict(path, data)


def decode_strict(path: Path, data: bytes, lines_before: int = 0) -> str:
    """The text of an annotated file, or of its lines after the first ones, with LF and no BOM."""
    text = decode_file(path, data, lines_before).replace("\r\n", "\n")
    if "\r" in text:
        line = lines_before + text.count("\n", 0, text.index("\r")) + 1
        raise ToolkitError(
            f"{path}:{line}: found a carriage return inside a line. End lines with LF or CRLF."
        )
    return text if lines_before else text.removeprefix(BOM.decode())


def find_text_start(data: bytes) -> int:
    """Index of the first byte after a BOM."""
    return len(data) - len(data.removeprefix(BOM))
