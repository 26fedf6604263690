"""Tables of texts or pairs with a class or a number; they have no quotes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.data.formats.classification.split import (
    ANSWERS,
    FILES,
    FIRST,
    GLUE_SCHEMAS,
    INDEX,
    KIND,
    NO_CLASS,
    SECOND,
    UNDECIDED,
    ClassificationTokenizer,
    GlueFormatConfig,
    Labels,
    TableSchema,
    TsvConfig,
)
from toolkit.data.formats.format import (
    MAX_QUOTED,
    Block,
    Format,
    Job,
    MalformedOptions,
    Problem,
    SplitReport,
    check_malformed,
    count_column,
    list_first,
    parse_records,
)
from toolkit.data.preprocessing.choose_tokenizer import load_given_tokenizer
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.records import Record, name_cells, read_tab_cells
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.text_files import whole_file

BLOCK_ROWS = 1 << 16


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


class ClassificationFormat(Format[list[LabeledTable], ClassificationTokenizer]):
    """Base class of tables; `check` of a subclass sets the schema of its columns."""

    kind, unit, published = KIND, "rows", FILES
    schema: TableSchema
    options: MalformedOptions

    def read_split(self, split: str, files: Sequence[Path]) -> list[LabeledTable]:
        """Training and validation data must have labels; all files of a split, or none."""
        tables = [self.read_table(path) for path in files]
        for table in tables:
            if not table.rows and not table.problems:
                raise ToolkitError(f"{table.path} must hold rows, but has none. Give another file.")
            check_malformed(table.problems, self.options.on_malformed, labeled=table.labeled)
            if not table.labeled and not split.startswith("test"):
                raise ToolkitError(
                    f"{table.path} has no column of labels, which training and validation need. "
                    f"Give it as --testpref, or name the column in its first line."
                )
            if table.labeled != tables[0].labeled:
                raise ToolkitError(
                    f"all files of a split must have labels, or none, but {table.path} differs "
                    f"from {tables[0].path}. Preprocess them separately."
                )
        return leave_out_undecided(tables, self.schema)

    def read_table(self, path: Path) -> LabeledTable:
        """The rows of a file."""
        return read_tsv(path, self.schema, self.config.max_line_bytes)

    def texts(self, content: list[LabeledTable]) -> Iterable[str]:
        return (text for table in content for row in table.rows for text in row.texts)

    def choose_tokenizer(
        self, splits: Mapping[str, list[LabeledTable]], folder: Path, pool: WorkerPool
    ) -> ClassificationTokenizer:
        labels = self.choose_labels(splits.get("train", ()))
        return ClassificationTokenizer(super().choose_tokenizer(splits, folder, pool), labels)

    def choose_labels(self, training: Sequence[LabeledTable]) -> Labels:
        """The schema's classes, or those of the training data. A given tokenizer with the same
        ones, or without training data, decides, so that its model fits.
        """
        schema, classes = self.schema, list(self.schema.classes)
        if not schema.is_regression:
            if not classes:
                classes = sorted({str(row.label) for table in training for row in table.rows})
            given = load_given_tokenizer(self.config)
            if isinstance(given, ClassificationTokenizer) and (
                not classes or set(classes) == set(given.labels.classes)
            ):
                classes = given.labels.classes
            if len(classes) < 2:
                raise ToolkitError(
                    f"a classification needs two classes or more, but the training data has "
                    f"{len(classes)}. Give labeled --trainpref, or --tokenizer-from a folder that "
                    f"has the classes."
                )
        bounds = [schema.min_value, schema.max_value] if schema.max_value < math.inf else []
        return Labels(
            task=schema.name,
            classes=classes,
            metrics=list(schema.metrics),
            pairs=schema.pairs,
            bounds=bounds,
        )

    def columns(self, split: str, tokenizer: ClassificationTokenizer) -> Mapping[str, ColumnType]:
        second = {SECOND: tokenizer.vocabulary} if self.schema.pairs else {}
        return {FIRST: tokenizer.vocabulary, **second, ANSWERS: "<i8", INDEX: "<i8"}

    def encode(
        self, split: str, content: list[LabeledTable], job: Job[ClassificationTokenizer]
    ) -> Iterator[Block]:
        """Each file is a document."""
        labels = job.tokenizer.labels
        for table in content:
            for start in range(0, len(table.rows), BLOCK_ROWS):
                rows = table.rows[start : start + BLOCK_ROWS]
                for row in rows:
                    if labels.classes and row.label not in (None, *labels.classes):
                        raise ToolkitError(
                            f"{table.path}:{row.line}: the label must be one of the training data, "
                            f"{', '.join(labels.classes[:20])}, but is {row.label!r}. "
                            f"Correct it, or add such rows to the training data."
                        )
                _, numbers, texts, answers = map(list, zip(*rows, strict=True))
                columns = encode_rows(job.tokenizer, texts, answers, numbers)
                yield Block(columns, np.arange(start, start + len(rows)) == 0)

    def split_metadata(self, content: list[LabeledTable]) -> JsonObject:
        rows = [row for table in content for row in table.rows]
        classes = Counter(row.label for row in rows if row.label)
        return {
            "malformed": sum(len(table.problems) for table in content),
            "empty": sum(not text for row in rows for text in row.texts),
            "unlabeled": sum(row.label is None for row in rows),
            "labels": {} if self.schema.is_regression else dict(classes),
            "files": [table.path.name for table in content],
        }

    def settings(self, tokenizer: ClassificationTokenizer) -> JsonObject:
        return {
            "tokenizer": tokenizer.inner.kind,
            "task": tokenizer.labels.task,
            "labels": tokenizer.labels.fingerprint[:16],
            "malformed": self.options.on_malformed,
        }

    def describe(self, tokenizer: ClassificationTokenizer) -> tuple[str, JsonObject]:
        labels, (_, facts) = tokenizer.labels, super().describe(tokenizer)
        return f"{labels.task}, {', '.join(labels.classes) or 'a number'}", facts

    def report_split(
        self, split: str, content: list[LabeledTable] | None, entry: JsonObject
    ) -> SplitReport:
        columns = entry["columns"]
        rows = count_column(columns[FIRST])["items"]
        texts = [columns[name] for name in (FIRST, SECOND) if name in columns]
        tokens = sum(count_column(column)["tokens"] for column in texts)
        counts = {name: entry[name] for name in ("malformed", "empty", "unlabeled", "labels")}
        labels = ", ".join(f"{name} {count:,}" for name, count in sorted(entry["labels"].items()))
        problems = [problem for table in content or () for problem in table.problems]
        return SplitReport(
            record={"rows": rows, "tokens": tokens, **counts},
            row={
                "files": len(entry["files"]),
                "rows": rows,
                "left out": entry["malformed"],
                "empty texts": entry["empty"],
                "tokens": tokens,
                "answers": "none" if entry["unlabeled"] else labels or f"{rows:,} numbers",
            },
            total=rows,
            notes=list(list_first(split, "left out", problems)),
            events=[problem.row_event() for problem in problems],
        )


@register_format("glue", GlueFormatConfig())
class GlueFormat(ClassificationFormat):
    """The tables of GLUE."""

    options: GlueFormatConfig

    def check(self) -> None:
        if self.options.glue_task not in GLUE_SCHEMAS:
            raise ToolkitError(
                f"glue_task must be one of {', '.join(GLUE_SCHEMAS)}, but is "
                f"{self.options.glue_task!r}."
            )
        self.schema = GLUE_SCHEMAS[self.options.glue_task]
        self.published = self.schema.files


@register_format("tsv", TsvConfig())
class TsvFormat(ClassificationFormat):
    """Your own tables: tab-separated, with names in the first line."""

    options: TsvConfig

    def check(self) -> None:
        number = self.options.label_type == "number"
        self.schema = TableSchema(
            name="tsv",
            text_columns=split_text_columns(self.options.text_columns),
            label_columns=(self.options.label_column,),
            index_columns=(),
            is_regression=number,
            metrics=("pearson", "spearman") if number else ("accuracy",),
        )


def split_text_columns(names: str) -> tuple[tuple[str], ...]:
    """One name or two, as of a schema."""
    columns = tuple((name.strip(),) for name in names.split(","))
    if len(columns) > 2 or ("",) in columns:
        raise ToolkitError(f"text_columns must be one name, or two with a comma, but is {names!r}.")
    return columns


def encode_rows(
    tokenizer: ClassificationTokenizer,
    texts: Sequence[tuple[str, ...]],
    labels: Sequence[object],
    numbers: Sequence[int],
) -> dict[str, tuple[AnyArray, IntArray]]:
    """The columns of rows, by their texts, labels and numbers."""
    names, one = (FIRST, SECOND)[: 1 + tokenizer.labels.pairs], np.ones(len(texts), np.int64)
    encoded = [tokenizer.encode_lines([row[i] for row in texts]) for i in range(len(names))]
    return {
        **dict(zip(names, encoded, strict=True)),
        ANSWERS: (encode_answers(tokenizer.labels, labels), one),
        INDEX: (np.array(numbers, np.int64), one),
    }


def encode_answers(known: Labels, answers: Sequence[Any]) -> IntArray:
    """Ids of classes, -1 for no label; for numbers the bits of float64, NaN for no label."""
    if not known.classes:
        numbers = [math.nan if answer is None else float(answer) for answer in answers]
        return np.array(numbers, np.float64).view(np.int64)
    ids: dict[str | None, int] = {name: number for number, name in enumerate(known.classes)}
    ids[None] = NO_CLASS
    return np.array([ids[answer] for answer in answers], np.int64)


def encode_raw_texts(
    tokenizer: ClassificationTokenizer,
    items: Sequence[tuple[str, ...]],
    labels: Sequence[object] | None = None,
) -> MemoryFolder:
    """A folder with one text per item, or two."""
    labels = [None] * len(items) if labels is None else labels
    if len(labels) != len(items):
        raise ToolkitError(
            f"each text must have a label, but there are {len(items):,} texts and "
            f"{len(labels):,} label{'s' * (len(labels) != 1)}."
        )
    known = tokenizer.labels
    for index, label in enumerate(labels):  # None is no label
        is_class = isinstance(label, str) and label in known.classes
        is_number = isinstance(label, Real) and math.isfinite(label)
        if not (label is None or (is_class if known.classes else is_number)):
            expected = f"one of {', '.join(known.classes)}" if known.classes else "a finite number"
            raise ToolkitError(f"labels must be {expected}, but label {index} is {label!r}.")
    return MemoryFolder(KIND, tokenizer, encode_rows(tokenizer, items, labels, range(len(items))))


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
        return TableRow(record.number + 1, number, tuple(cells[name] for name in texts), answer)

    records, problems = name_cells(chain([header._replace(values=names)], lines)), list[Problem]()
    return LabeledTable(path, list(parse_records(enumerate(records), parse, problems)), problems)


def leave_out_undecided(tables: Sequence[LabeledTable], task: TableSchema) -> list[LabeledTable]:
    """The tables without rows that have no agreed label, which become problems. Among own labels, -
    may also be a class: if there is a +, or one other class only.
    """
    others = {row.label for table in tables for row in table.rows} - {UNDECIDED}
    if task.is_regression or not (task.classes or (len(others) > 1 and "+" not in others)):
        return list(tables)
    decided, what = list[LabeledTable](), "its annotators did not agree on a label."
    for path, rows, problems in tables:
        kept = [row for row in rows if row.label != UNDECIDED]
        lines = [row.line for row in rows if row.label == UNDECIDED]
        problems = [*problems, *(Problem(path, str(line), what) for line in lines)]
        decided.append(LabeledTable(path, kept, problems))
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
