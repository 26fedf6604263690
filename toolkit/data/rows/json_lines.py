"""JSON lines: an object in each line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolkit.common.json_files import JSON_TYPES, JsonError, parse
from toolkit.data.rows.reader import RowBatch, RowError, RowReader, list_names, read_row_text
from toolkit.data.text_files import FileChunk, is_compressed


class JsonLinesReader(RowReader):
    """Reads a string field of each JSON object."""

    def fields(self, path: Path) -> Sequence[str]:
        """The fields of the first row that hold strings."""
        for lines in read_row_text(FileChunk(path, 0, path.stat().st_size, True)):
            for line in filter(None, lines.lines):
                row = parse_row(line, 0)
                return [name for name, value in row.items() if isinstance(value, str)]
        return []

    def read(self, chunk: FileChunk) -> Iterator[RowBatch]:
        for lines in read_row_text(chunk):
            rows = [row for row in zip(lines.numbers, lines.lines, strict=True) if row[1]]
            texts = [find_text(parse_row(line, number), chunk, number) for number, line in rows]
            yield RowBatch(texts, [number for number, _ in rows], lines.read_bytes)

    def find_cut(self, path: Path, near: int) -> int:
        if is_compressed(path):
            return super().find_cut(path, near)
        with path.open("rb") as file:
            file.seek(near)
            file.readline()
            return file.tell()


def parse_row(line: str, number: int) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        row = parse(line)
    except JsonError as error:
        raise RowError(number, f"expected JSON: {error}. Correct the line.") from error
    if not isinstance(row, dict):
        raise RowError(
            number,
            f"expected a JSON object, found {JSON_TYPES[type(row)]}. Write each row as an object "
            f"on a separate line, for instance with jq -c '.[]'.",
        )
    return row


def find_text(row: dict[str, Any], chunk: FileChunk, number: int) -> str:
    """The string in the field."""
    if chunk.field not in row:
        raise RowError(
            number, f"the row has no field {chunk.field!r}. Its fields are {list_names([*row])}."
        )
    text = row[chunk.field]
    if not isinstance(text, str):
        raise RowError(
            number,
            f"the field {chunk.field!r} must hold a string, but holds {JSON_TYPES[type(text)]}. "
            f"Correct the row, or remove it.",
        )
    return text
