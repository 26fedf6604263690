"""CSV and TSV: a header with the names of the columns, then a row for each text."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from toolkit.data.rows.reader import (
    BATCH_BYTES,
    MAX_ROW_BYTES,
    RowBatch,
    RowError,
    RowReader,
    check_field,
    read_row_text,
)
from toolkit.data.text_files import FileChunk

Quoting: TypeAlias = Literal[0, 3]
"""csv.QUOTE_MINIMAL or csv.QUOTE_NONE."""


class TableReader(RowReader):
    """CSV has quotes, as written by spreadsheets and pandas; TSV has none, as in GLUE."""

    def __init__(self, delimiter: str, quoting: Quoting) -> None:
        self._delimiter, self._quoting = delimiter, quoting

    def fields(self, path: Path) -> Sequence[str]:
        return self._open(FileChunk(path, 0, path.stat().st_size, True))[0]

    def read(self, chunk: FileChunk) -> Iterator[RowBatch]:
        header, rows = self._open(chunk)
        check_field(chunk.path, chunk.field, header)
        column, size = header.index(chunk.field), 0
        texts, numbers = list[str](), list[int]()
        for number, cells in rows:
            check_row(number, cells, len(header))
            texts.append(cells[column])
            numbers.append(number)
            size += len(texts[-1])
            if size > BATCH_BYTES:
                yield RowBatch(texts, numbers, rows.read_bytes)
                texts, numbers, size = [], [], 0
        yield RowBatch(texts, numbers, chunk.size)

    def _open(self, chunk: FileChunk) -> tuple[list[str], _Rows]:
        rows = _Rows(chunk, self._delimiter, self._quoting)
        for _, header in rows:
            return [name.strip() for name in header], rows
        raise RowError(0, "the header is missing. Give another file.")


class _Rows(Iterator[tuple[int, list[str]]]):
    """The rows of a table, each with the line where it starts, counted from 0."""

    def __init__(self, chunk: FileChunk, delimiter: str, quoting: Quoting) -> None:
        csv.field_size_limit(MAX_ROW_BYTES)
        self._chunk, self.read_bytes = chunk, 0
        self._rows = csv.reader(self._lines(), delimiter=delimiter, quoting=quoting, strict=True)

    def _lines(self) -> Iterator[str]:
        for lines in read_row_text(self._chunk, strip=False):
            self.read_bytes = lines.read_bytes
            for line in lines.lines:
                yield line + "\n"

    def __next__(self) -> tuple[int, list[str]]:
        number = self._rows.line_num
        try:
            cells = next(self._rows)
        except csv.Error as error:
            raise RowError(
                number, f"the row that starts here is malformed: {error}. Correct its quotes."
            ) from error
        return number, cells or [""]


def check_row(number: int, cells: Sequence[str], columns: int) -> None:
    """A row must have as many cells as the header."""
    if len(cells) != columns:
        raise RowError(
            number,
            f"a row must have {columns} cells, as the header, but has {len(cells)}. Correct the "
            f"row.",
        )
