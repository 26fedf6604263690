"""Tables of tab-separated columns as they are: no quoting, every problem with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.glue_tasks import LabelledTask
from toolkit.data.text_files import BOM, decoded, unpacked

SHOWN = 40
"""Characters of a wrong value that an error shows."""


class Row(NamedTuple):
    """One example."""

    line: int
    """From 1."""
    number: int
    """Its index in the benchmark, where a column says so, else its place in the file, from 0
    behind the header."""
    texts: tuple[str, ...]
    label: str | None
    """None where the file has no answers."""


class Problem(NamedTuple):
    """A row that is none."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Table(NamedTuple):
    path: Path
    rows: list[Row]
    problems: list[Problem]

    @property
    def labelled(self) -> bool:
        return bool(self.rows) and self.rows[0].label is not None


class Places(NamedTuple):
    """Where in a row everything stands."""

    columns: int
    texts: tuple[int, ...]
    label: int | None
    number: int | None


def read_table(path: Path, task: LabelledTask, max_line_bytes: int) -> Table:
    """Every line a row; a byte order mark, CRLF and blank lines at the end are no matter."""
    data = unpacked(path).removeprefix(BOM)
    lines = [line.removesuffix("\r") for line in decoded(path, data).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ToolkitError(f"{path} must hold rows, but is empty. Give another file.")
    places, header = places_of(path, lines[0], task)
    rows, problems = list[Row](), list[Problem]()
    for number, line in enumerate(lines[header:], 1 + header):
        if len(line) * 4 > max_line_bytes and (size := len(line.encode())) > max_line_bytes:
            raise ToolkitError(
                f"{path}:{number}: a row must have at most {max_line_bytes} bytes, but has {size}. "
                f"Shorten it, or raise --max-line-bytes."
            )
        try:
            rows.append(row_of(line, number, header, places, task))
        except ValueError as fault:
            problems.append(Problem(path, number, str(fault)))
    if not rows and not problems:
        raise ToolkitError(f"{path} must hold rows, but has only its header. Give another file.")
    return Table(path, rows, problems)


def places_of(path: Path, first: str, task: LabelledTask) -> tuple[Places, int]:
    """By the names in the first line; and how many lines that is."""
    names = [name.strip() for name in first.split("\t")]
    texts = [named(names, known) for known in task.texts]
    if not any(place is None for place in texts):
        found = tuple(place for place in texts if place is not None)
        return Places(len(names), found, named(names, task.label), named(names, task.index)), 1
    if task.headless and len(names) == task.headless[0]:
        columns, label, text = task.headless
        return Places(columns, (text,), label, None), 0
    wanted = ", ".join(repr(known[0]) for known in task.texts)
    raise ToolkitError(
        f"{path}:1: the first line must name the columns of {task.name}, {wanted} among them, but "
        f"names {', '.join(repr(name[:SHOWN]) for name in names)}. Give the file as it was "
        f"published, with tabs between columns; of your own table, name them by --text-columns."
    )


def named(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def row_of(line: str, number: int, header: int, places: Places, task: LabelledTask) -> Row:
    """Raises ValueError with what is wrong."""
    fields = line.split("\t")
    if len(fields) != places.columns:
        raise ValueError(
            f"a row must have {places.columns} columns, as the first line, but has {len(fields)}."
        )
    label = None if places.label is None else checked(fields[places.label].strip(), task)
    index = number - 1 - header
    if label is None and places.number is not None:
        given = fields[places.number].strip()
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise ValueError(f"the index must be a whole number, but is {given[:SHOWN]!r}.")
        index = int(given)
    return Row(number, index, tuple(fields[place].strip() for place in places.texts), label)


def checked(label: str, task: LabelledTask) -> str:
    """An answer that the task may have."""
    if task.number:
        value = number(label)
        if not task.lowest <= value <= task.highest:
            within = f" from {task.lowest:g} to {task.highest:g}" if task.highest < math.inf else ""
            raise ValueError(f"the answer must be a number{within}, but is {label[:SHOWN]!r}.")
    elif not label:
        raise ValueError("the row must have an answer, but it is empty.")
    elif task.classes and label not in task.classes:
        known = ", ".join(task.classes)
        raise ValueError(f"the answer must be one of {known}, but is {label[:SHOWN]!r}.")
    return label


def number(text: str) -> float:
    """NaN where it is none, and for infinities."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
