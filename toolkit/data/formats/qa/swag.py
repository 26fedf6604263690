"""Tables of text continuations: SWAG (Zellers et al. 2018) and CODAH (Chen et al. 2019).

The csv has names in its first line: sent1, sent2, ending0, ..., label; or, in the full version,
sent1, sent2, gold-ending, distractor-0, ... CODAH's tsv has none: category, prompt, endings, label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.passages import (
    ChoiceQuestion,
    Passage,
    QuestionProblem,
    QuestionSource,
)
from toolkit.data.preprocessing.malformed import MAX_QUOTED
from toolkit.data.records import read_csv_cells, read_tab_cells
from toolkit.data.text_files import whole_file

Fields = Sequence[str]


class SwagLayout(NamedTuple):
    """The number of columns, and the indices of those that are read."""

    columns: int
    first: int
    """The text to continue."""
    second: int | None
    """The start of the next sentence, which every ending continues."""
    endings: tuple[int, ...]
    label: int | None
    gold: bool = False
    """Whether the first ending is the correct one, and others may be absent."""
    group: int | None = None


def read_swag(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """A passage for every row, with one question."""
    is_tsv = ".tsv" in path.suffixes
    read = read_tab_cells if is_tsv else read_csv_cells
    passages, problems, layout = list[Passage](), list[QuestionProblem](), None
    for record in read(whole_file(path, max_bytes)):
        number = len(passages) + len(problems)
        blank = "".join(record.values)
        if not (blank.strip() if is_tsv else blank):
            continue
        if layout is None:
            layout = codah_layout(record.values) if is_tsv else parse_header(path, record.values)
            if not is_tsv:
                continue
        try:
            passages.append(parse_row(record.values, layout, number, answers_required))
        except ValueError as error:
            problems.append(QuestionProblem(path, str(record.line), str(error)))
    if not passages and not problems:
        raise ToolkitError(f"{path}:1: the file must hold rows, but has none. Give another file.")
    return QuestionSource(path, passages, problems)


def parse_header(path: Path, names: Fields) -> SwagLayout:
    """The layout from the names in the first line."""
    names = [name.strip() for name in names]
    index = {name: number for number, name in enumerate(names)}
    endings = find_numbered_columns(index, "ending")
    gold = not endings and "gold-ending" in index
    if gold:
        endings = (index["gold-ending"], *find_numbered_columns(index, "distractor-"))
    first, second = index.get("sent1"), index.get("sent2")
    if first is None:
        first, second = index.get("startphrase"), None
    if len(endings) < 2 or first is None:
        raise ToolkitError(
            f"{path}:1: the first line must name the columns of SWAG, sent1, sent2, ending0, "
            f"ending1 and so on, or gold-ending and distractor-0, but names "
            f"{', '.join(repr(name[:MAX_QUOTED]) for name in names[:20])}. Give the file as it was "
            f"published."
        )
    label = None if gold else index.get("label")
    return SwagLayout(len(names), first, second, endings, label, gold)


def find_numbered_columns(index: Mapping[str, int], name: str) -> tuple[int, ...]:
    """Columns NAME0, NAME1, ... up to the first that does not exist."""
    columns = (index.get(f"{name}{number}") for number in count())
    return tuple(takewhile(lambda column: column is not None, columns))  # type: ignore[arg-type]


def codah_layout(fields: Fields) -> SwagLayout:
    """The layout from the number of columns: category, prompt, endings, label."""
    last = len(fields) - 1
    return SwagLayout(last + 1, 1, None, tuple(range(2, last)), last, group=0)


def parse_row(fields: Fields, layout: SwagLayout, number: int, answer_required: bool) -> Passage:
    """Raises ValueError for a malformed row."""
    if len(fields) != layout.columns:
        raise ValueError(
            f"a row must have {layout.columns} columns, as the first line, but has {len(fields)}."
        )
    endings = [fields[column].strip() for column in layout.endings]
    if layout.gold:
        endings = [endings[0], *filter(None, endings[1:])]
    if not all(endings) or len(endings) < 2:
        raise ValueError("every ending must be text, but one is blank.")
    if layout.gold:  # moved, because a model could learn that it is always the first
        answer: int | None = (gold := number % len(endings))
        endings = [*endings[1 : gold + 1], endings[0], *endings[gold + 1 :]]
    else:
        answer = parse_label(read_cell(fields, layout.label), len(endings), answer_required)
    start = read_cell(fields, layout.second)
    options = tuple(f"{start} {ending}".strip() for ending in endings)
    question = ChoiceQuestion(str(number), options, answer, read_cell(fields, layout.group))
    return Passage(read_cell(fields, layout.first), choices=(question,))


def read_cell(fields: Fields, column: int | None) -> str:
    """The text of a cell; empty if the table lacks the column."""
    return "" if column is None else fields[column].strip()


def parse_label(label: str, endings: int, required: bool) -> int | None:
    """The label as a number; None without one."""
    if not label and not required:
        return None
    if not label:
        raise ValueError("the row must have an answer in a column label, but has none.")
    if not (label.isascii() and label.isdigit() and int(label) < endings):
        raise ValueError(
            f"the label must be a number from 0 to {endings - 1}, but is {label[:MAX_QUOTED]!r}."
        )
    return int(label)
