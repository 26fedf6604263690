"""Base class of readers of rows: files whose rows have a text in one field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from toolkit.common.errors import ToolkitError, join_first
from toolkit.data.text_files import FileChunk, LineChunk, raise_in_chunk, read_lines

BATCH_BYTES = 1 << 20
MAX_ROW_BYTES = 1 << 30
"""A row may hold a whole book; --max-line-bytes limits the lines of its text."""


class RowBatch(NamedTuple):
    """Consecutive rows of a file chunk."""

    texts: list[str]
    numbers: Sequence[int]
    """The line or row of each in the file chunk, counted from 0."""
    read_bytes: int
    """Number of bytes of the file chunk that have been read so far."""


class RowError(Exception):
    """A fault of a row, and where it is in the file chunk."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class RowReader(ABC):
    """Reads one kind of file. A subclass defines `fields` and `read`."""

    @abstractmethod
    def fields(self, path: Path) -> Sequence[str]:
        """The fields of a file that can hold text, for messages."""

    @abstractmethod
    def read(self, chunk: FileChunk) -> Iterator[RowBatch]:
        """The texts in `chunk.field` of all rows that start in the chunk. Raises RowError."""

    def find_cut(self, path: Path, near: int) -> int:
        """The first byte at or after `near` where a file can be cut, or its size."""
        return path.stat().st_size

    def raise_in_row(self, chunk: FileChunk, number: int, message: str) -> NoReturn:
        """A user's mistake in a row, which is named by its line."""
        raise_in_chunk(chunk, number, message)


def read_row_text(chunk: FileChunk, *, strip: bool = True) -> Iterator[LineChunk]:
    """The lines of a file of rows."""
    return read_lines(chunk, MAX_ROW_BYTES, strip=strip, remedy="Divide it into several rows.")


def check_field(path: Path, field: str, fields: Sequence[str]) -> None:
    """The rows of a table must have the field once."""
    if fields.count(field) != 1:
        problem = f"has two columns {field!r}" if field in fields else f"has no column {field!r}"
        raise ToolkitError(f"{path} {problem}. Its columns are {list_names(fields)}.")


def list_names(names: Sequence[str]) -> str:
    """Some names, quoted."""
    return join_first([repr(name[:40]) for name in names], 20)
