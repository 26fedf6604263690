"""Predictions as rows: the columns of the input, and those of the prediction after them.

A column of the prediction that the input has too, such as `label`, is called `predicted_label`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_dir, open_output, write_output
from toolkit.common.json_files import JsonObject, write_json
from toolkit.data.formats.tagging.conllu import ConlluOptions, replace_sentence_tags
from toolkit.data.formats.tagging.treebanks import TaggedSentence
from toolkit.data.raw_items import to_single_line
from toolkit.data.records import FEATURES
from toolkit.data.text_files import import_pyarrow
from toolkit.reporting.console import TextStream
from toolkit.tasks.predictions import ItemPrediction
from toolkit.tasks.tagging.predictions import SpanPrediction, TagPrediction


class InputRecord(NamedTuple):
    """A line of the input, a row, or a sentence of CoNLL-U."""

    line: int
    """Its line or row, or that of the sentence's first word or comment, from 1."""
    item: Any = None
    """The item as the task's Predictor parses it; None if the line is malformed."""
    problem: str = ""
    """File, line and what is wrong; empty if nothing is."""
    values: Mapping[str, object] | None = None
    """The columns of a row, or an object; None if it has no names."""
    sentence: TaggedSentence | None = None
    """The sentence of CoNLL-U."""


Answer = tuple[InputRecord, ItemPrediction | None]
"""A record and its prediction, which is None for a malformed one."""
DATA_FILE = "data-00000-of-00001.arrow"
WriteAnswers = Callable[[Sequence[Answer]], None]


@contextmanager
def open_answers(
    kind: str, path: str, columns: Sequence[str], options: ConlluOptions, features: bytes
) -> Iterator[WriteAnswers]:
    """Writes answers to a file of this kind; `columns` are those of a prediction in a table.

    `features` are the types of the input's columns, as Hugging Face stores them.
    """
    if kind in ("parquet", "arrow", "dataset"):
        if kind == "dataset":
            check_new_folder(Path(path), "--output")
        tables: list[Any] = []
        yield lambda answers: tables.append(to_table([to_row(*it) for it in answers]))
        write_tables(kind, path, tables, features)
        return
    with open_output(path) as file:
        to_line = {
            "jsonl": lambda record, it: json_files.dumps(to_row(record, it), default=str) + "\n",
            "conllu": lambda record, it: format_conllu(record, it, options),
        }.get(kind)
        cells = CellWriter(kind, file, columns)

        def write(answers: Sequence[Answer]) -> None:
            if to_line:
                file.write("".join(to_line(*answer) for answer in answers))
            else:
                cells.write(answers)
            file.flush()

        yield write


def rename(name: str, columns: Container[str]) -> str:
    """The name of a column of the prediction in a table with those of the input."""
    return f"predicted_{name}" if name in columns else name


def to_json_record(record: InputRecord, prediction: ItemPrediction | None) -> dict[str, object]:
    """{"line": 1, "id": ..., "label": ...}; for a malformed line {"line": 1, "problem": ...}."""
    identity = (record.values or {}).get("id")
    name = {} if identity is None else {"id": identity}
    values = prediction._asdict() if prediction else {"problem": record.problem}
    return {"line": record.line, **name, **values}


def to_row(record: InputRecord, prediction: ItemPrediction | None) -> dict[str, object]:
    """The columns of a row with all fields of its prediction, but not its words again."""
    if record.values is None:
        return to_json_record(record, prediction)
    fields = prediction._asdict() if prediction else {"problem": record.problem}
    fields.pop("words", None)
    named = {rename(name, record.values): value for name, value in fields.items()}
    return {**record.values, **named}


class CellWriter:
    """Rows of cells: plain text without names of columns, TSV or CSV."""

    def __init__(self, kind: str, file: TextStream, columns: Sequence[str]) -> None:
        self.kind, self.file, self.columns = kind, file, columns
        self.kept: list[str] | None = [] if kind == "text" else None
        """The columns of the input, which its first row names."""

    def write(self, answers: Sequence[Answer]) -> None:
        if self.kept is None:
            self.kept = next(([*it.values] for it, _ in answers if it.values is not None), [])
            self.write_row([*self.kept, *(rename(name, self.kept) for name in self.columns)])
        empty = [""] * len(self.columns)
        for record, prediction in answers:
            values = [(record.values or {}).get(name) for name in self.kept]
            kept = [
                (it or "")
                if it is None or isinstance(it, str)
                else json_files.dumps(it, default=str)
                for it in values
            ]
            self.write_row([*kept, *(prediction.to_row() if prediction else empty)])

    def write_row(self, cells: Sequence[str]) -> None:
        line = io.StringIO()
        if self.kind == "csv":
            csv.writer(line, lineterminator="\n").writerow(cells)
        else:
            line.write("\t".join(map(to_single_line, cells)) + "\n")
        self.file.write(line.getvalue())


def to_table(rows: Sequence[Mapping[str, object]]) -> Any:
    """The rows as a table of Arrow."""
    names = dict.fromkeys(name for row in rows for name in row)
    with one_type_in_columns():
        return import_pyarrow().table({name: [row.get(name) for row in rows] for name in names})


@contextmanager
def one_type_in_columns() -> Iterator[None]:
    """Turn errors about the types of values in a column into one line."""
    try:
        yield
    except import_pyarrow().ArrowException as error:
        raise ToolkitError(
            f"the values of a column must have one type to be written, but have several: "
            f"{' '.join(str(error).split())} Choose --output-format jsonl."
        ) from error


def write_tables(kind: str, path: str, tables: Sequence[Any], features: bytes) -> None:
    """Write a Parquet or Arrow file, or a folder as `save_to_disk` of Hugging Face does."""
    arrow, buffer = import_pyarrow(), import_pyarrow().BufferOutputStream()
    with one_type_in_columns():
        table = arrow.concat_tables(tables or [arrow.table({})], promote_options="permissive")
    table = table.replace_schema_metadata({FEATURES: features})
    if kind == "parquet":
        import_pyarrow("parquet").write_table(table, buffer)
    else:
        with import_pyarrow("ipc").new_stream(buffer, table.schema) as stream:
            stream.write_table(table)
    content = buffer.getvalue().to_pybytes()
    if kind != "dataset":
        write_output(path, content)
        return
    state: JsonObject = dict.fromkeys(("_format_columns", "_format_type", "_split"))
    state |= {"_format_kwargs": {}, "_output_all_columns": False, "_fingerprint": "0"}
    state |= {"_data_files": [{"filename": DATA_FILE}]}
    with atomic_dir(Path(path), replace=False) as folder:
        (folder / DATA_FILE).write_bytes(content)
        write_json(folder / "state.json", state)
        write_json(folder / "dataset_info.json", {})


def format_conllu(
    record: InputRecord, prediction: ItemPrediction | None, options: ConlluOptions
) -> str:
    """The sentence with the predicted tags in their column; a malformed one is unchanged."""
    assert record.sentence is not None, "the input is CoNLL-U"
    tags = (
        prediction.tags
        if isinstance(prediction, TagPrediction | SpanPrediction)
        else record.sentence.tags
    )
    return replace_sentence_tags(record.sentence, tags, options)
