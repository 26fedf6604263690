"""From tables of texts and their answers to a data folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.classification import report
from toolkit.data.formats.classification.files import list_table_files
from toolkit.data.formats.classification.glue_tasks import GLUE_SCHEMAS, TableSchema
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer, Labels
from toolkit.data.formats.classification.tsv import LabeledTable, TableRow, read_tsv
from toolkit.data.preprocessing.choose_tokenizer import (
    choose_tokenizer_for_texts,
    load_given_tokenizer,
)
from toolkit.data.preprocessing.output_folder import create_output_folder, report_write_errors
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.meta import META_FILE, build_meta, write_meta
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.json_output import Output

KIND = "labeled"
FIRST, SECOND, ANSWERS, INDEX = "tokens", "second", "answers", "index"
NO_CLASS = -1
MANY = 1 << 16
"""Texts that are tokenized at once."""


def preprocess_labeled(config: PreprocessConfig) -> None:
    """Read every split, learn or take the vocabulary, write the columns, and meta.json last."""
    begun = time.perf_counter()
    with (
        Output(config.json) as output,
        create_output_folder(Path(config.destdir), overwrite=config.overwrite) as folder,
    ):
        task = choose_schema(config)
        read = {
            split: [read_tsv(path, task, config.max_line_bytes) for path in paths]
            for split, paths in list_table_files(config, task.files).items()
        }
        check_problems(read, config)
        check_answers(read)
        with report_write_errors(config.destdir):
            tokenizer = build_tokenizer(config, task, read, folder)
            tokenizer.save(folder)
            written = {split: write_split(split, t, tokenizer, folder) for split, t in read.items()}
            settings = settings_of(config, tokenizer)
            meta = build_meta(folder, tokenizer, kind=KIND, settings=settings, splits=written)
            write_meta(folder / META_FILE, meta)
        seconds = time.perf_counter() - begun
        report.print_summary(config.destdir, tokenizer.labels, meta, read, seconds, output)


def choose_schema(config: PreprocessConfig) -> TableSchema:
    """One of GLUE's, or one's own table's."""
    if config.format == "glue":
        return GLUE_SCHEMAS[config.glue_task]
    number = config.label_type == "number"
    return TableSchema(
        name="tsv",
        text_columns=tuple((name,) for name in config.text_columns.split(",")),
        label_columns=(config.label_column,),
        index_columns=(),
        is_regression=number,
        metrics=("pearson", "spearman") if number else ("accuracy",),
    )


def check_problems(read: Mapping[str, Sequence[LabeledTable]], config: PreprocessConfig) -> None:
    """The first one, unless rows may be left out; none may of what is to be answered in full."""
    for tables in read.values():
        for table in tables:
            unlabeled = table.rows and not table.labeled
            if table.problems and (config.on_malformed == "error" or unlabeled or not table.rows):
                skip = "Correct it." if unlabeled else "Correct it, or give --on-malformed skip."
                count = len(table.problems)
                more = f" {count:,} rows of this file are so." if count > 1 else ""
                raise ToolkitError(f"{table.problems[0]}{more} {skip}")


def check_answers(read: Mapping[str, Sequence[LabeledTable]]) -> None:
    for split, tables in read.items():
        for table in tables:
            if not table.labeled and not split.startswith("test"):
                raise ToolkitError(
                    f"{table.path} must have answers to learn or judge by, but has no column of "
                    f"them. Give it as testpref, or name the column in its first line."
                )
            if table.labeled != tables[0].labeled:
                raise ToolkitError(
                    f"files of one split must all have answers or none, but {table.path} differs "
                    f"from {tables[0].path}. Preprocess them apart."
                )


def build_tokenizer(
    config: PreprocessConfig,
    task: TableSchema,
    read: Mapping[str, Sequence[LabeledTable]],
    folder: Path,
) -> ClassificationTokenizer:
    """The tokenizer that an option brings, or one learned from the texts; classes as they come."""
    given = load_given_tokenizer(config)
    labels = choose_labels(task, read, given)
    texts = (text for t in read.get("train", ()) for row in t.rows for text in row.texts)
    return ClassificationTokenizer(choose_tokenizer_for_texts(config, texts, folder, given), labels)


def choose_labels(
    task: TableSchema, read: Mapping[str, Sequence[LabeledTable]], given: Tokenizer | None
) -> Labels:
    """The task's classes; of one's own table those of its training part, or of the given
    tokenizer."""
    classes = list(task.classes)
    if not classes and not task.is_regression:
        found = {row.label for table in read.get("train", ()) for row in table.rows}
        classes = sorted(str(label) for label in found)
        if not classes and isinstance(given, ClassificationTokenizer):
            classes = given.labels.classes
        if len(classes) < 2:
            raise ToolkitError(
                f"classes must be two or more to be told apart, but the training part has "
                f"{len(classes)}. Give --trainpref with answers, or --tokenizer-from a folder that "
                f"knows them."
            )
    return Labels(
        task=task.name,
        classes=classes,
        metrics=list(task.metrics),
        pairs=task.pairs,
        bounds=[task.min_value, task.max_value] if task.max_value < float("inf") else [],
    )


def write_split(
    split: str, tables: Sequence[LabeledTable], tokenizer: ClassificationTokenizer, folder: Path
) -> dict[str, Any]:
    """Its columns, each file a document; and what it holds."""
    words, labels = tokenizer.vocabulary, tokenizer.labels
    dtypes = {FIRST: words.dtype, ANSWERS: "<i8", INDEX: "<i8"}
    dtypes |= {SECOND: words.dtype} if labels.pairs else {}
    texts = {FIRST: 0, SECOND: 1}
    writers = {
        name: ColumnWriter(
            folder / f"{split}.{name}", dtype, *([words.fingerprint] if name in texts else [])
        )
        for name, dtype in dtypes.items()
    }
    for table in tables:
        for begin in range(0, len(table.rows), MANY):
            rows = table.rows[begin : begin + MANY]
            first = np.arange(len(rows)) + begin == 0
            one = np.ones(len(rows), np.int64)
            writers[ANSWERS].add(answers_of(rows, labels, table.path), one, first)
            writers[INDEX].add(np.array([row.number for row in rows], np.int64), one, first)
            for name in texts.keys() & writers.keys():
                lines = [row.texts[texts[name]] for row in rows]
                writers[name].add(*tokenizer.encode_lines(lines), first)
    rows = [row for table in tables for row in table.rows]
    return {
        "malformed": sum(len(table.problems) for table in tables),
        "empty": sum(not text for row in rows for text in row.texts),
        "unlabeled": sum(row.label is None for row in rows),
        "labels": dict(Counter(row.label for row in rows if labels.classes and row.label)),
        "files": [table.path.name for table in tables],
        "columns": {n: {"dtype": dtypes[n], "parts": [w.finish()]} for n, w in writers.items()},
    }


def answers_of(rows: Sequence[TableRow], labels: Labels, path: Path) -> IntArray:
    """Ids of classes, -1 where there is no answer; of numbers the bits of float64, NaN for none."""
    if not labels.classes:
        numbers = [float("nan") if row.label is None else float(row.label) for row in rows]
        return np.array(numbers, np.float64).view(np.int64)
    ids: dict[str | None, int] = {None: NO_CLASS}
    ids |= {name: place for place, name in enumerate(labels.classes)}
    for row in rows:
        if row.label not in ids:
            raise ToolkitError(
                f"{path}:{row.line}: the answer must be one that the training part has, "
                f"{', '.join(labels.classes[:20])}, but is {row.label!r}. Correct it."
            )
    return np.array([ids[row.label] for row in rows], np.int64)


def settings_of(config: PreprocessConfig, tokenizer: ClassificationTokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.inner.kind,
        "task": tokenizer.labels.task,
        "labels": tokenizer.labels.fingerprint[:16],
        "malformed": config.on_malformed,
    }
