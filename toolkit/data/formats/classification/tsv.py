"""Tab-separated tables without quoting; every problem is reported with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.glue import TableSchema
from toolkit.data.preprocessing.malformed import MAX_QUOTED
from toolkit.data.records import Record, read_tab_cells
from toolkit.data.text_files import whole_file


class TableRow(NamedTuple):
    """One example."""

    line: int
    """Line of the file, counted from 1."""
    number: int
    """Its index in the benchmark if it has no label and the table has a column for that, else its
    row after the header, counted from 0."""
    texts: tuple[str, ...]
    label: str | None
    """None if the file has no labels."""


class RowProblem(NamedTuple):
    """A malformed row."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class LabeledTable(NamedTuple):
    """The rows of a table, and the problems found in it."""

    path: Path
    rows: list[TableRow]
    problems: list[RowProblem]

    @property
    def labeled(self) -> bool:
        return bool(self.rows) and self.rows[0].label is not None


class ColumnLayout(NamedTuple):
    """The number of columns, and the indices of those that are read."""

    columns: int
    texts: tuple[int, ...]
    label: int | None
    number: int | None


def read_tsv(path: Path, task: TableSchema, max_line_bytes: int) -> LabeledTable:
    """Read each line as a row; byte order mark, CRLF and blank lines at the end are ignored."""
    records = list(read_tab_cells(whole_file(path, max_line_bytes)))
    while records and not "".join(records[-1].values).strip():
        records.pop()
    if not records:
        raise ToolkitError(f"{path} must hold rows, but is empty. Give another file.")
    layout, header = find_columns(records[0], task)
    rows, problems = list[TableRow](), list[RowProblem]()
    for record in records[header:]:
        try:
            rows.append(parse_row(record, header, layout, task))
        except ValueError as error:
            problems.append(RowProblem(path, record.line, str(error)))
    if not rows and not problems:
        raise ToolkitError(f"{path} must hold rows, but has only its header. Give another file.")
    return LabeledTable(path, rows, problems)


def find_columns(first: Record, task: TableSchema) -> tuple[ColumnLayout, int]:
    """The layout from the names in the first line, and the number of header lines."""
    names = [name.strip() for name in first.values]
    found = [find_column(names, known) for known in task.text_columns]
    texts = tuple(column for column in found if column is not None)
    if len(texts) == len(found):
        label = find_column(names, task.label_columns)
        return ColumnLayout(len(names), texts, label, find_column(names, task.index_columns)), 1
    if task.headerless and len(names) == task.headerless[0]:
        columns, label, text = task.headerless
        return ColumnLayout(columns, (text,), label, None), 0
    wanted = ", ".join(repr(known[0]) for known in task.text_columns)
    raise first.error(
        f"the first line must name the columns of {task.name}, {wanted} among them, but "
        f"names {', '.join(repr(name[:MAX_QUOTED]) for name in names)}. Give the file as it was "
        f"published, with tabs between columns. Name the columns of your own table with "
        f"--text-columns."
    )


def find_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    """Index of the first known name among the names of the columns; None without one."""
    return next((names.index(name) for name in known if name in names), None)


def parse_row(record: Record, header: int, layout: ColumnLayout, task: TableSchema) -> TableRow:
    """Raises ValueError for a malformed row."""
    fields, number = record.values, record.number + 1
    if len(fields) != layout.columns:
        raise ValueError(
            f"a row must have {layout.columns} columns, as the first line, but has {len(fields)}."
        )
    label = None if layout.label is None else parse_label(fields[layout.label].strip(), task)
    index = number - 1 - header
    if label is None and layout.number is not None:
        cell = fields[layout.number].strip()
        if not (cell.isascii() and cell.isdigit() and len(cell) < 19):
            raise ValueError(f"the index must be a whole number, but is {cell[:MAX_QUOTED]!r}.")
        index = int(cell)
    return TableRow(number, index, tuple(fields[column].strip() for column in layout.texts), label)


def parse_label(label: str, task: TableSchema) -> str:
    """The label, which must be valid for the task."""
    if task.is_regression:
        value = parse_number(label)
        if not task.min_value <= value <= task.max_value:
            bounded = task.max_value < math.inf
            bounds = f" from {task.min_value:g} to {task.max_value:g}" if bounded else ""
            raise ValueError(f"the answer must be a number{bounds}, but is {label[:MAX_QUOTED]!r}.")
    elif not label:
        raise ValueError("the row must have an answer, but it is empty.")
    elif task.classes and label not in task.classes:
        known = ", ".join(task.classes)
        raise ValueError(f"the answer must be one of {known}, but is {label[:MAX_QUOTED]!r}.")
    return label


def parse_number(text: str) -> float:
    """The number; NaN if the text is none, and for infinities."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
