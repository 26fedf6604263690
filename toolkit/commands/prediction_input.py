"""Input of toolkit-predict: plain text, tables, JSON lines and CoNLL-U, read line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import is_json_object
from toolkit.data.formats.tagging.conllu import ConlluOptions, stream_conllu
from toolkit.data.formats.tagging.sentence import TaggedSentence
from toolkit.data.records import LineStream, Record, read_json_lines, read_tab_cells, read_tsv
from toolkit.tasks.raw_items import Fields, Values, check_names, read_cells, read_item


class InputRecord(NamedTuple):
    """A line of the input, or a sentence of CoNLL-U."""

    line: int
    """Its line, or that of the sentence's first word or comment, from 1."""
    item: Any = None
    """The item as the task's Predictor parses it; None if the line is malformed."""
    problem: str = ""
    """File, line and what is wrong; empty if nothing is."""
    id: object = None
    """The `id` of a JSON object or a row."""
    sentence: TaggedSentence | None = None
    """The sentence of CoNLL-U."""


READERS = {"text": read_tab_cells, "tsv": read_tsv, "jsonl": read_json_lines}


def read_input(
    lines: Iterable[bytes],
    kind: str,
    name: str,
    fields: Fields,
    parse_item: Callable[[Values], Any],
) -> Iterator[InputRecord]:
    """One record per line of plain text, a table or JSON lines."""
    source = LineStream(Path(name), lines)
    for index, record in enumerate(READERS[kind](source)):
        if index == 0:
            check_first(record, kind, fields)
        values, problem, item = record.values, record.problem, None
        try:
            if not problem:
                read = read_plain if kind == "text" else read_item
                item = parse_item(read(fields, values))
        except ToolkitError as error:
            problem = str(error)
        identity = values.get("id") if isinstance(values, dict) else None
        where = str(record.error(problem)) if problem else ""
        yield InputRecord(record.line, item, where, None if problem else identity)


def check_first(record: Record, kind: str, fields: Fields) -> None:
    """Raise if the input is of another kind, or the columns of a table have other names."""
    if kind == "text" and is_json_object("\t".join(record.values)):
        raise record.error(
            "the line must be plain text, but is a JSON object. Add --input-format jsonl."
        )
    if kind == "tsv" and record.values is not None:
        try:
            check_names(fields, record.values)
        except ToolkitError as error:
            raise ToolkitError(f"{record.file}:1: {error}") from None


def read_plain(fields: Fields, cells: Sequence[str]) -> Values:
    """The parts of an item separated by tabs, without names."""
    try:
        return read_cells(fields, cells)
    except ToolkitError as error:
        one = sum(field.required for field in fields) == 1
        remedy = "Replace tabs by spaces." if one else "Separate the parts by tabs."
        raise ToolkitError(
            f"{error} {remedy} If the first line names the columns, add --input-format tsv."
        ) from None


def read_conllu(lines: Iterable[bytes], name: str, options: ConlluOptions) -> Iterator[InputRecord]:
    """A record per sentence."""
    for line, sentence, problem in stream_conllu(lines, Path(name), options):
        item = None if problem else sentence.words
        yield InputRecord(line, item, problem, sentence=sentence)
