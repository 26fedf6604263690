"""SWAG's tables: how a text goes on (Zellers et al. 2018), and CODAH's (Chen et al. 2019).

The csv has names in its first line: sent1, sent2, ending0 and so on, label; or, in full, sent1,
sent2, gold-ending, distractor-0 and so on. CODAH's tsv has none: category, prompt, endings, label.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.passages import (
    ChoiceQuestion,
    Passage,
    QuestionProblem,
    QuestionSource,
)
from toolkit.data.text_files import read_text

SHOWN = 40
Fields = Sequence[str]


class SwagLayout(NamedTuple):
    """Where in a row everything stands."""

    columns: int
    first: int | None
    """The text that goes on."""
    second: int | None
    """How its next sentence begins, which every ending goes on."""
    endings: tuple[int, ...]
    label: int | None
    gold: bool = False
    """Whether the first ending is the right one, and others may be absent."""
    group: int | None = None


def read_swag(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """A passage for every row, with its answer where that is wanted."""
    text = read_text(path)
    rows = tsv_rows(text) if is_tsv(path) else csv_rows(path, text, max_bytes)
    passages, problems, layout = list[Passage](), list[QuestionProblem](), None
    for line, fields in rows:
        number = len(passages) + len(problems)
        if layout is None:
            layout = codah_layout(fields) if is_tsv(path) else parse_header(path, fields)
            if not is_tsv(path):
                continue
        if sum(map(len, fields)) > max_bytes:
            raise ToolkitError(
                f"{path}:{line}: a row must have at most {max_bytes} characters, but has "
                f"{sum(map(len, fields))}. Shorten it, or raise --max-line-bytes."
            )
        try:
            passages.append(parse_row(fields, layout, number, answers_required))
        except ValueError as fault:
            problems.append(QuestionProblem(path, str(line), str(fault)))
    if not passages and not problems:
        raise ToolkitError(f"{path}:1: the file must hold rows, but has none. Give another file.")
    return QuestionSource(path, passages, problems)


def is_tsv(path: Path) -> bool:
    return ".tsv" in path.suffixes


def tsv_rows(text: str) -> Iterator[tuple[int, Fields]]:
    for line, row in enumerate(text.split("\n"), 1):
        if row.strip():
            yield line, row.removesuffix("\r").split("\t")


def csv_rows(path: Path, text: str, max_bytes: int) -> Iterator[tuple[int, Fields]]:
    """Rows with the line that each begins on; a quoted field may go over several."""
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    reader, line = csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for fields in reader:
            if any(fields):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ToolkitError(
            f"{path}:{line}: a row must be written as in csv, but from here it is not: {error}. "
            f'Quotation marks inside a field in quotes must be doubled, as in "a ""b"" c".'
        ) from error


def parse_header(path: Path, names: Fields) -> SwagLayout:
    """By the names in the first line."""
    names = [name.strip() for name in names]
    place = {name: number for number, name in enumerate(names)}
    endings = find_numbered_columns(place, "ending")
    gold = not endings and "gold-ending" in place
    if gold:
        endings = (place["gold-ending"], *find_numbered_columns(place, "distractor-"))
    first, second = place.get("sent1"), place.get("sent2")
    if first is None:
        first, second = place.get("startphrase"), None
    if len(endings) < 2 or first is None:
        raise ToolkitError(
            f"{path}:1: the first line must name the columns of SWAG, sent1, sent2, ending0, "
            f"ending1 and so on, or gold-ending and distractor-0, but names "
            f"{', '.join(repr(name[:SHOWN]) for name in names[:20])}. Give the file as it was "
            f"published."
        )
    label = None if gold else place.get("label")
    return SwagLayout(len(names), first, second, endings, label, gold)


def find_numbered_columns(place: dict[str, int], name: str) -> tuple[int, ...]:
    found, number = [], 0
    while (column := place.get(f"{name}{number}")) is not None:
        found.append(column)
        number += 1
    return tuple(found)


def codah_layout(fields: Fields) -> SwagLayout:
    """By the number of columns: category, prompt, endings, label."""
    last = len(fields) - 1
    return SwagLayout(last + 1, 1, None, tuple(range(2, last)), last, group=0)


def parse_row(fields: Fields, layout: SwagLayout, number: int, wanted: bool) -> Passage:
    """Raises ValueError with what is wrong."""
    if len(fields) != layout.columns:
        raise ValueError(
            f"a row must have {layout.columns} columns, as the first line, but has {len(fields)}."
        )
    endings = [fields[at].strip() for at in layout.endings]
    if layout.gold:
        endings = [endings[0], *filter(None, endings[1:])]
    if not all(endings) or len(endings) < 2:
        raise ValueError("every ending must be text, but one is blank.")
    begun = read_cell(fields, layout.second)
    answer = (
        0 if layout.gold else parse_label(read_cell(fields, layout.label), len(endings), wanted)
    )
    if layout.gold:  # not always the first, which a model could learn
        answer = number % len(endings)
        endings = [*endings[1 : answer + 1], endings[0], *endings[answer + 1 :]]
    options = tuple(f"{begun} {ending}".strip() for ending in endings)
    found = ChoiceQuestion(str(number), options, answer, read_cell(fields, layout.group))
    return Passage(read_cell(fields, layout.first), choices=(found,))


def read_cell(fields: Fields, at: int | None) -> str:
    return "" if at is None else fields[at].strip()


def parse_label(label: str, endings: int, wanted: bool) -> int | None:
    """The index of the label; None without one."""
    if not label and not wanted:
        return None
    if not label:
        raise ValueError("the row must have an answer in a column label, but has none.")
    if not (label.isascii() and label.isdigit() and int(label) < endings):
        raise ValueError(
            f"the label must be a number from 0 to {endings - 1}, but is {label[:SHOWN]!r}."
        )
    return int(label)
