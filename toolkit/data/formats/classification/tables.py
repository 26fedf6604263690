"""Tables of labeled texts, GLUE's (Wang et al. 2019, table 1) and others: columns and rows.

A submission is a table of index and prediction for each task. Tables have no quotes; every problem
is reported with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import AnyArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.data.formats.classification.split import GLUE_TASKS, ClassificationSplit
from toolkit.data.formats.format import MAX_QUOTED, Problem, parse_records
from toolkit.data.preprocessing.input_files import FileNames
from toolkit.data.records import Record, name_cells, read_tab_cells
from toolkit.data.text_files import whole_file

FILES: FileNames = {"train": ("train.tsv",), "valid": ("dev.tsv",), "test": ("test.tsv",)}


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The columns of a table, its labels and their metrics."""

    name: str
    text_columns: tuple[tuple[str, ...], ...]
    """One text or two: for each, the possible names of its column."""
    label_columns: tuple[str, ...] = ("label",)
    """Possible names of the column with the label."""
    index_columns: tuple[str, ...] = ("index", "id")
    """Possible names of the column with the row number in a submission; without one rows are
    counted."""
    classes: tuple[str, ...] = ()
    """Classes as in the files, in the order of their ids; empty if the answer is a number."""
    is_regression: bool = False
    min_value: float = -float("inf")
    max_value: float = float("inf")
    metrics: tuple[str, ...] = ("accuracy",)
    """The official metrics; the task's score is their mean."""
    headerless: tuple[str, ...] = ()
    """The columns of a file without names."""
    files: FileNames = field(default_factory=lambda: FILES)
    """Split -> possible names of its file in the benchmark's folder."""

    @property
    def pairs(self) -> bool:
        return len(self.text_columns) == 2


SENTENCE, SENTENCES = (("sentence",),), (("sentence1",), ("sentence2",))
ENTAILMENT = ("entailment", "not_entailment")
YES_OR_NO = ("0", "1")
MNLI_FILES = {
    "train": ("train.tsv",),
    "valid": ("dev_matched.tsv",),
    "valid_mismatched": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}
AX_FILES = {"test": ("diagnostic.tsv", "AX.tsv", "ax.tsv", "diagnostic-full.tsv")}
MRPC_FILES = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "valid": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}

GLUE_SCHEMAS = {
    task.name: task
    for task in (
        TableSchema(
            name="CoLA",
            text_columns=SENTENCE,
            classes=YES_OR_NO,
            metrics=("matthews",),
            headerless=("source", "label", "mark", "sentence"),
        ),
        TableSchema(name="SST-2", text_columns=SENTENCE, classes=YES_OR_NO),
        TableSchema(
            name="MRPC",
            text_columns=(("#1 String",), ("#2 String",)),
            label_columns=("Quality",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
            files=MRPC_FILES,
        ),
        TableSchema(
            name="STS-B",
            text_columns=SENTENCES,
            label_columns=("score",),
            is_regression=True,
            min_value=0.0,
            max_value=5.0,
            metrics=("pearson", "spearman"),
        ),
        TableSchema(
            name="QQP",
            text_columns=(("question1",), ("question2",)),
            label_columns=("is_duplicate",),
            classes=YES_OR_NO,
            metrics=("accuracy", "f1"),
        ),
        TableSchema(
            name="MNLI",
            text_columns=SENTENCES,
            label_columns=("gold_label",),
            classes=("entailment", "neutral", "contradiction"),
            files=MNLI_FILES,
        ),
        TableSchema(name="QNLI", text_columns=(("question",), ("sentence",)), classes=ENTAILMENT),
        TableSchema(name="RTE", text_columns=SENTENCES, classes=ENTAILMENT),
        TableSchema(name="WNLI", text_columns=SENTENCES, classes=YES_OR_NO),
        TableSchema(
            name="AX",
            text_columns=(("sentence1", "Premise"), ("sentence2", "Hypothesis")),
            label_columns=("label", "Label"),
            classes=("entailment", "neutral", "contradiction"),
            metrics=("matthews",),
            files=AX_FILES,
        ),
    )
}
assert tuple(GLUE_SCHEMAS) == GLUE_TASKS, "the options know the same tasks"


UNDECIDED = "-"
"""Label of rows on which annotators did not agree, as in SNLI and MultiNLI."""
HEADER = "index\tprediction\n"


def write_submission(split: ClassificationSplit, predictions: AnyArray, path: Path) -> None:
    """Write a file, or one with the benchmark's name into a folder."""
    if path.suffix == ".zip":
        raise ToolkitError(
            f"--predictions must name a folder or a .tsv file, but is {path}. Write the "
            f"predictions of all tasks to one folder, and pack them: zip -j {path} FOLDER/*.tsv."
        )
    name = submission_file(split) if path.is_dir() else ""
    write_output(path / name, format_submission(split, predictions))


def submission_file(split: ClassificationSplit) -> str:
    """The benchmark's name of the file for a test split."""
    task = GLUE_SCHEMAS.get(split.labels.task)
    known = [name for name in task.files if name.startswith("test")] if task else []
    if split.name not in known:
        raise ToolkitError(
            f"a submission must be of a test split of GLUE, but is of {split.name!r} of "
            f"{split.labels.task}, which has {', '.join(known) or 'none'}. Write to a .tsv file "
            f"instead."
        )
    genres = {"test": "-m", "test_mismatched": "-mm"}[split.name] * (len(known) > 1)
    return f"{split.labels.task}{genres}.tsv"


def format_submission(split: ClassificationSplit, predictions: AnyArray) -> str:
    """The table in the order of the index, whose values must be unique."""
    labels, order = split.labels, np.argsort(split.index, kind="stable")
    if len(np.unique(split.index)) < len(split):
        raise ToolkitError(
            f"every row of a submission needs its own index, but split {split.name!r} of "
            f"{split.folder.name} has one twice. Preprocess its files separately."
        )
    if split.is_regression:
        low, high = labels.bounds or (None, None)
        numbers = predictions if low is None else predictions.clip(low, high)
        form = ".3f" if labels.bounds else ".9g"  # three decimals are the benchmark's
        answers = [f"{number:{form}}" for number in numbers[order]]
    else:
        answers = [labels.classes[answer] for answer in predictions[order]]
    rows = zip(split.index[order].tolist(), answers, strict=True)
    return HEADER + "".join(f"{index}\t{answer}\n" for index, answer in rows)


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


class LabeledTable(NamedTuple):
    """The rows of a table, and the problems found in it."""

    path: Path
    rows: list[TableRow]
    problems: list[Problem]

    @property
    def labeled(self) -> bool:
        return bool(self.rows) and self.rows[0].label is not None


def read_tsv(path: Path, task: TableSchema, max_line_bytes: int) -> LabeledTable:
    """Read each line as a row; byte order mark, CRLF and blank lines at the end are ignored."""
    lines = read_tab_cells(whole_file(path, max_line_bytes))
    if (header := next(lines, None)) is None:
        raise ToolkitError(f"{path} must hold rows, but is empty. Give another file.")
    names = [name.strip() for name in header.values]
    if task.headerless and len(names) == len(task.headerless) and not find_texts(names, task):
        names, lines = [*task.headerless], chain([header], lines)
    if not (texts := find_texts(names, task)):
        wanted = ", ".join(repr(known[0]) for known in task.text_columns)
        raise header.error(
            f"the first line must name the columns of {task.name}, {wanted} among them, but "
            f"names {', '.join(repr(name[:MAX_QUOTED]) for name in names)}. Give the file as it "
            f"was published, with tabs between columns. Name the columns of your own table with "
            f"--text-columns."
        )
    label, index = find_column(names, task.label_columns), find_column(names, task.index_columns)

    def parse(number: int, record: Record) -> TableRow:
        cells = {name: cell.strip() for name, cell in record.values.items()}
        answer = None if label is None else parse_label(cells[label], task)
        if answer is None and index is not None:
            if not re.fullmatch("[0-9]{1,18}", cell := cells[index]):
                raise ValueError(f"the index must be a whole number, but is {cell[:MAX_QUOTED]!r}.")
            number = int(cell)
        row_texts = tuple(cells[name] for name in texts)
        return TableRow(record.number + 1, number, row_texts, answer)

    records, problems = name_cells(chain([header._replace(values=names)], lines)), list[Problem]()
    return LabeledTable(path, list(parse_records(enumerate(records), parse, problems)), problems)


def leave_out_undecided(tables: Sequence[LabeledTable], task: TableSchema) -> list[LabeledTable]:
    """The tables without rows that have no agreed label, which become problems.

    Among own labels, - may also be a class: if there is a +, or one other class only.
    """
    others = {row.label for table in tables for row in table.rows} - {UNDECIDED}
    if task.is_regression or not (task.classes or (len(others) > 1 and "+" not in others)):
        return list(tables)
    decided = []
    for table in tables:
        problems = [
            Problem(table.path, str(row.line), "its annotators did not agree on a label.")
            for row in table.rows
            if row.label == UNDECIDED
        ]
        rows = [row for row in table.rows if row.label != UNDECIDED]
        decided.append(table._replace(rows=rows, problems=table.problems + problems))
    return decided


def find_texts(names: Sequence[str], task: TableSchema) -> list[str]:
    """The names of the columns with the task's texts; none if one is missing."""
    found = [find_column(names, known) for known in task.text_columns]
    return [] if None in found else [name for name in found if name]


def find_column(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first known name that one of the columns has; None without one."""
    return next((name for name in known if names.count(name) == 1), None)


def parse_label(label: str, task: TableSchema) -> str:
    """The label, which must be valid for the task."""
    if task.is_regression:
        try:
            value = float(label)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and task.min_value <= value <= task.max_value):
            bounded = task.max_value < math.inf
            bounds = f" from {task.min_value:g} to {task.max_value:g}" if bounded else ""
            raise ValueError(f"the answer must be a number{bounds}, but is {label[:MAX_QUOTED]!r}.")
    elif not label:
        raise ValueError("the row must have an answer, but it is empty.")
    elif task.classes and label not in (*task.classes, UNDECIDED):
        known = ", ".join(task.classes)
        raise ValueError(f"the answer must be one of {known}, but is {label[:MAX_QUOTED]!r}.")
    return label
