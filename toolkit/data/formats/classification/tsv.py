"""Tables of tab-separated columns as they are: no quoting, every problem with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.glue_tasks import TableSchema
from toolkit.data.text_files import read_text

SHOWN = 40
"""Characters of a wrong value that an error shows."""


class TableRow(NamedTuple):
    """One example."""

    line: int
    """From 1."""
    number: int
    """Its index in the benchmark, where a column says so, else its row in the file, counted
    from 0 after the header."""
    texts: tuple[str, ...]
    label: str | None
    """None where the file has no answers."""


class RowProblem(NamedTuple):
    """A malformed row."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class LabeledTable(NamedTuple):
    path: Path
    rows: list[TableRow]
    problems: list[RowProblem]

    @property
    def labeled(self) -> bool:
        return bool(self.rows) and self.rows[0].label is not None


class ColumnLayout(NamedTuple):
    """Which column of a row holds what."""

    columns: int
    texts: tuple[int, ...]
    label: int | None
    number: int | None


def read_tsv(path: Path, task: TableSchema, max_line_bytes: int) -> LabeledTable:
    """Every line a row; a byte order mark, CRLF and blank lines at the end are no matter."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ToolkitError(f"{path} must hold rows, but is empty. Give another file.")
    places, header = find_columns(path, lines[0], task)
    rows, problems = list[TableRow](), list[RowProblem]()
    for number, line in enumerate(lines[header:], 1 + header):
        if len(line) * 4 > max_line_bytes and (size := len(line.encode())) > max_line_bytes:
            raise ToolkitError(
                f"{path}:{number}: a row must have at most {max_line_bytes} bytes, but has {size}. "
                f"Shorten it, or raise --max-line-bytes."
            )
        try:
            rows.append(parse_row(line, number, header, places, task))
        except ValueError as fault:
            problems.append(RowProblem(path, number, str(fault)))
    if not rows and not problems:
        raise ToolkitError(f"{path} must hold rows, but has only its header. Give another file.")
    return LabeledTable(path, rows, problems)


def find_columns(path: Path, first: str, task: TableSchema) -> tuple[ColumnLayout, int]:
    """By the names in the first line; and how many lines that is."""
    names = [name.strip() for name in first.split("\t")]
    texts = [find_column(names, known) for known in task.text_columns]
    if not any(place is None for place in texts):
        found = tuple(place for place in texts if place is not None)
        return ColumnLayout(
            len(names),
            found,
            find_column(names, task.label_columns),
            find_column(names, task.index_columns),
        ), 1
    if task.headerless and len(names) == task.headerless[0]:
        columns, label, text = task.headerless
        return ColumnLayout(columns, (text,), label, None), 0
    wanted = ", ".join(repr(known[0]) for known in task.text_columns)
    raise ToolkitError(
        f"{path}:1: the first line must name the columns of {task.name}, {wanted} among them, but "
        f"names {', '.join(repr(name[:SHOWN]) for name in names)}. Give the file as it was "
        f"published, with tabs between columns; of your own table, name them by --text-columns."
    )


def find_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def parse_row(
    line: str, number: int, header: int, places: ColumnLayout, task: TableSchema
) -> TableRow:
    """Raises ValueError with what is wrong."""
    fields = line.split("\t")
    if len(fields) != places.columns:
        raise ValueError(
            f"a row must have {places.columns} columns, as the first line, but has {len(fields)}."
        )
    label = None if places.label is None else parse_label(fields[places.label].strip(), task)
    index = number - 1 - header
    if label is None and places.number is not None:
        given = fields[places.number].strip()
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise ValueError(f"the index must be a whole number, but is {given[:SHOWN]!r}.")
        index = int(given)
    return TableRow(number, index, tuple(fields[place].strip() for place in places.texts), label)


def parse_label(label: str, task: TableSchema) -> str:
    """An answer that the task may have."""
    if task.is_regression:
        value = parse_number(label)
        if not task.min_value <= value <= task.max_value:
            within = (
                f" from {task.min_value:g} to {task.max_value:g}"
                if task.max_value < math.inf
                else ""
            )
            raise ValueError(f"the answer must be a number{within}, but is {label[:SHOWN]!r}.")
    elif not label:
        raise ValueError("the row must have an answer, but it is empty.")
    elif task.classes and label not in task.classes:
        known = ", ".join(task.classes)
        raise ValueError(f"the answer must be one of {known}, but is {label[:SHOWN]!r}.")
    return label


def parse_number(text: str) -> float:
    """NaN where it is none, and for infinities."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
