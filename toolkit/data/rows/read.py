"""Texts of rows as lines: the kinds of files, and reading one of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import is_json_object
from toolkit.data.rows.arrow import IpcReader, ParquetReader
from toolkit.data.rows.json_lines import JsonLinesReader
from toolkit.data.rows.reader import MAX_ROW_BYTES, RowBatch, RowError, RowReader, list_names
from toolkit.data.rows.tables import TableReader
from toolkit.data.text_files import (
    FileChunk,
    LineChunk,
    TextError,
    raise_in_chunk,
    split_lines,
    strip_compression_suffix,
)

READERS: dict[str, RowReader] = {
    ".jsonl": JsonLinesReader(),
    ".ndjson": JsonLinesReader(),
    ".json": JsonLinesReader(),
    ".csv": TableReader(",", csv.QUOTE_MINIMAL),
    ".tsv": TableReader("\t", csv.QUOTE_NONE),
    ".parquet": ParquetReader(),
    ".arrow": IpcReader(),
}
FOLDER_SUFFIXES = tuple(suffix for suffix in READERS if suffix != ".json")
"""Endings of the files that a folder stands for. Datasets describe themselves in .json files."""


def row_suffix(path: Path) -> str:
    """.jsonl of a.jsonl.gz."""
    return Path(strip_compression_suffix(path.name)).suffix


def find_reader(path: Path) -> RowReader:
    """The reader of a kind of file; a file without an ending, such as a pipe, has JSON lines."""
    suffix = row_suffix(path)
    if suffix in READERS or not suffix:
        return READERS[suffix or ".jsonl"]
    raise ToolkitError(
        f"--text-field requires files ending in {', '.join(READERS)}, but {path} is not one. Leave "
        f"the option out for plain text."
    )


def begins_with_json(path: Path) -> bool:
    """Whether the first line is a JSON object: standard input and pipes have no ending."""
    with path.open("rb") as file:
        return is_json_object(file.readline(MAX_ROW_BYTES).decode("utf-8", errors="replace"))


def check_plain(path: Path) -> None:
    """Raise if a file that is to be read as plain text has rows."""
    suffix = row_suffix(path)
    if suffix not in READERS and (suffix or not begins_with_json(path)):
        return
    try:
        fields = find_reader(path).fields(path)
    except RowError:
        fields = []
    known = f": {list_names(fields)}" if fields else ""
    raise ToolkitError(
        f"{path} holds rows, not plain text. Name the field that holds the text with --text-field"
        f"{known}."
    )


def raise_at_item(chunk: FileChunk, number: int, message: str) -> NoReturn:
    """A user's mistake in the line or row of a chunk, counted from 0, where an item starts."""
    if chunk.field:
        find_reader(chunk.path).raise_in_row(chunk, number, message)
    raise_in_chunk(chunk, number, message)


def read_row_lines(chunk: FileChunk, max_line_bytes: int) -> Iterator[LineChunk]:
    """The lines of the texts of all rows, stripped; the lines of a row have its number."""
    reader = find_reader(chunk.path)
    try:
        for batch in reader.read(chunk):
            yield split_rows(batch, max_line_bytes)
    except RowError as error:
        reader.raise_in_row(chunk, error.number, str(error))


def split_rows(batch: RowBatch, max_line_bytes: int) -> LineChunk:
    """The texts of some rows as lines, each with the number of its row."""
    lines, numbers = list[str](), list[int]()
    for number, text in zip(batch.numbers, batch.texts, strict=True):
        if "\0" in text:
            raise RowError(number, "found a NUL character in the text. Remove it.")
        try:
            new = split_lines(text.encode(), max_line_bytes)
        except UnicodeEncodeError as error:
            raise RowError(
                number,
                f"found half of a surrogate pair, \\u{ord(text[error.start]):04x}, in the text. "
                f"Remove it.",
            ) from error
        except TextError as error:
            raise RowError(number, str(error)) from error
        lines += new
        numbers += [number] * len(new)
    return LineChunk(lines, batch.read_bytes, numbers)
