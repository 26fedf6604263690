"""Input of toolkit-predict: plain text, tables, JSON lines and CoNLL-U, read line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, is_json_object, parse
from toolkit.data.formats.tagging.conllu import ConlluOptions, stream_conllu
from toolkit.data.formats.tagging.sentence import TaggedSentence
from toolkit.generation.requests import decode_line
from toolkit.tasks.raw_items import Fields, Values, check_names, read_cells, read_item, read_record


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


class LineReader:
    """Reads records that are one line each; a subclass parses a line's text."""

    def __init__(self, fields: Fields, parse_item: Callable[[Values], Any], name: str) -> None:
        self.fields, self.parse_item, self.name = fields, parse_item, name

    def read(self, lines: Iterable[bytes]) -> Iterator[InputRecord]:
        """One record per line, without blank lines at the end."""
        blank: list[InputRecord] = []
        for number, line in enumerate(lines, 1):
            text, problem = decode_line(number, line)
            if number == 1 and self.is_header(text, problem):
                continue
            record = self.parse_line(number, text, problem)
            if self.is_blank(text):
                blank.append(record)
                continue
            yield from (*blank, record)
            blank = []

    def is_header(self, text: str, problem: str) -> bool:
        """Whether the first line is a header; raises a ToolkitError if it has another format."""
        return False

    def is_blank(self, text: str) -> bool:
        """Whether a line holds no item; such lines at the end of the input are ignored."""
        return not text.strip()

    def parse_line(self, number: int, text: str, problem: str) -> InputRecord:
        """The record of a line, or its problem."""
        try:
            if problem:
                raise ToolkitError(f"the line is {problem}. Convert it to UTF-8.")
            values, name = self.parse(text)
            return InputRecord(number, self.parse_item(values), id=name)
        except ToolkitError as error:
            return InputRecord(number, problem=f"{self.name}:{number}: {error}")

    def parse(self, text: str) -> tuple[Values, object]:
        """The values of a line and its id; raises a ToolkitError if it is malformed."""
        raise NotImplementedError


class PlainReader(LineReader):
    """The parts of an item separated by tabs, without names."""

    def is_header(self, text: str, problem: str) -> bool:
        if is_json_object(text):
            raise ToolkitError(
                f"{self.name}:1: the line must be plain text, but is a JSON object. Add "
                f"--input-format jsonl."
            )
        return False

    def is_blank(self, text: str) -> bool:
        """A blank line is an empty text."""
        return False

    def parse(self, text: str) -> tuple[Values, object]:
        try:
            return read_cells(self.fields, text.split("\t")), None
        except ToolkitError as error:
            one = sum(field.required for field in self.fields) == 1
            remedy = "Replace tabs by spaces." if one else "Separate the parts by tabs."
            raise ToolkitError(
                f"{error} {remedy} If the first line names the columns, add --input-format tsv."
            ) from None


class TableReader(LineReader):
    """A table with names in its first line."""

    def is_header(self, text: str, problem: str) -> bool:
        self.names = [name.strip() for name in text.split("\t")]
        try:
            check_names(self.fields, self.names)
        except ToolkitError as error:
            raise ToolkitError(f"{self.name}:1: {problem or error}") from None
        return True

    def is_blank(self, text: str) -> bool:
        """A line with a tab is a row, even if all its cells are empty."""
        return "\t" not in text and super().is_blank(text)

    def parse(self, text: str) -> tuple[Values, object]:
        cells = text.split("\t")
        if len(cells) != len(self.names):
            raise ToolkitError(
                f"a row must have {len(self.names)} columns, as the first line, but has "
                f"{len(cells)}. Correct the row."
            )
        row = dict(zip(self.names, cells, strict=True))
        return read_record(self.fields, row), row.get("id")


class JsonReader(LineReader):
    """A JSON object per line; or a text, or a list of the parts of an item."""

    def parse(self, text: str) -> tuple[Values, object]:
        try:
            value = parse(text)
        except JsonError as error:
            raise ToolkitError(
                f"the line must be JSON, but is not ({error}). Correct it, "
                f"or add --input-format text for plain text."
            ) from None
        name = value.get("id") if isinstance(value, dict) else None
        return read_item(self.fields, value), name


READERS: dict[str, type[LineReader]] = {
    "text": PlainReader,
    "tsv": TableReader,
    "jsonl": JsonReader,
}


def read_conllu(lines: Iterable[bytes], name: str, options: ConlluOptions) -> Iterator[InputRecord]:
    """A record per sentence."""
    for line, sentence, problem in stream_conllu(lines, Path(name), options):
        item = None if problem else sentence.words
        yield InputRecord(line, item, problem, sentence=sentence)
