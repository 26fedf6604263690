"""Rows with a class, a number, or a tag for each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.format import ClassificationFormat
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.formats.classification.tables import (
    UNDECIDED,
    LabeledTable,
    TableRow,
    TableSchema,
    parse_label,
)
from toolkit.data.formats.format import Problem, check_malformed, parse_records
from toolkit.data.formats.rows.format import LabeledRows, RowsConfig, read_class_names
from toolkit.data.formats.tagging.format import TaggingFormat
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.formats.tagging.treebanks import MISSING_TAG, TaggedFile, TaggedSentence
from toolkit.data.raw_items import InputField, describe, split_at_spaces, to_single_line
from toolkit.data.records import Record


class ClassifiedRows(
    LabeledRows[list[LabeledTable], ClassificationTokenizer], ClassificationFormat
):
    """A text, or two, with a class or a number."""

    options: RowsConfig
    naming = "--text-columns (words with a tag each: --words-column and --tags-column)"

    def check(self) -> None:
        super().check()
        self.label_column = self.options.label_column or "label"
        names = [name.strip() for name in self.options.text_columns.split(",")]
        if len(names) > 2 or not all(names[1:]):
            raise ToolkitError(
                f"text_columns must be one name, or two with a comma, but is "
                f"{self.options.text_columns!r}."
            )
        columns = [(name,) for name in names if name]
        parts = ("sentence1", "sentence2") if len(columns) == 2 else ("sentence",)
        self.item_columns = {part: name for part, [name] in zip(parts, columns, strict=False)}
        number = self.options.label_type == "number"
        self.schema = TableSchema(
            name="rows",
            text_columns=tuple(columns) or (("sentence", "text"),),
            is_regression=number,
            metrics=("pearson", "spearman") if number else ("accuracy",),
        )
        self.fields = [InputField(names) for names in self.schema.text_columns]

    def stratum(self, values: Any) -> object:
        column, number = self.label_column, self.schema.is_regression
        return values.get(column) if isinstance(values, dict) and not number else ""

    def read_table(self, path: Path) -> LabeledTable:
        problems = list[Problem]()
        names = read_class_names(path).get(self.label_column, [])
        if names and not self.schema.classes:
            self.schema = replace(self.schema, classes=tuple(names))

        def parse(number: int, record: Record) -> TableRow:
            texts = self.read_values(record, self.fields).values()
            lines = tuple(to_single_line(str(text)).strip() for text in texts)
            return TableRow(record.line, number, lines, self.read_label(record, names))

        return LabeledTable(
            path, list(parse_records(self.records(path), parse, problems)), problems
        )

    def read_label(self, record: Record, names: Sequence[str]) -> str | None:
        """The label as the tables of GLUE have it; None without one, which only tests may lack."""
        column, is_test = self.label_column, self.split == "test"
        value = record.values.get(column) if is_test else record.value(column)
        if is_test and value in (None, "", -1):
            return None
        if isinstance(value, list | dict):
            raise ValueError(f"the answer must be a text or a number, but is {describe(value)}.")
        if names and isinstance(value, int):
            value = {-1: UNDECIDED, **dict(enumerate(names))}.get(value)
        return parse_label("" if value is None else str(value).strip(), self.schema)


class TaggedRows(LabeledRows[list[TaggedFile], TaggingTokenizer], TaggingFormat):
    """A list of words, or a text with spaces, and a list of their tags.

    A row becomes the lines of a file of columns, which is the source that predictions change.
    """

    options: RowsConfig
    naming = "--words-column and --tags-column"

    def check(self) -> None:
        super().check()
        self.tag_column = "columns"
        words, tags = self.options.words_column, self.options.tags_column
        self.words = InputField((words,) if words else ("words", "tokens"), "words")
        self.tags = InputField((tags or "tags",), "tags")
        self.item_columns = {"words": words} if words else {}

    def read_file(self, path: Path, *, untagged: bool) -> Iterator[TaggedSentence]:
        names = read_class_names(path).get(self.tags.name, [])
        untagged = untagged or self.split == "test"
        sentences, problems = list[TaggedSentence](), list[Problem]()

        def parse(number: int, record: Record) -> TaggedSentence:
            has_tags = isinstance(record.values, dict) and self.tags.name in record.values
            fields = [self.words] if untagged and not has_tags else [self.words, self.tags]
            values = self.read_values(record, fields)
            words = values[self.words.name]
            tags = values.get(self.tags.name, [MISSING_TAG] * len(words))
            named = [name_tag(tag, names) for tag in tags]
            return make_sentence(words, named, record.line, is_first=not sentences)

        for sentence in parse_records(self.records(path), parse, problems):
            sentences.append(sentence)
        labeled = any(tag != MISSING_TAG for sentence in sentences for tag in sentence.tags)
        check_malformed(problems, self.options.on_malformed, labeled=labeled)
        self.left_out[self.split] += problems
        if sentences:
            last = sentences.pop()
            sentences.append(last._replace(source=last.source + b"\n"))
        return iter(sentences)


def make_sentence(
    words: Sequence[str], tags: Sequence[str], row: int, *, is_first: bool
) -> TaggedSentence:
    """A sentence whose source is a line for each word, after a blank one unless it is the first."""
    if len(words) != len(tags):
        raise ValueError(f"each word must have a tag, but {len(words)} words have {len(tags)}.")
    if not words:
        raise ValueError("the row must have words, but has none.")
    blank = "" if is_first else "\n"
    sentence, offset = TaggedSentence.empty(), len(blank)
    for word, tag in zip(words, tags, strict=True):
        if not word or len(split_at_spaces(tag)) != 1:
            raise ValueError(f"a word must have a tag without spaces, but {word!r} has {tag!r}.")
        start = offset + len(word.encode()) + 1
        offset = start + len(tag.encode()) + 1
        sentence.add(word, tag, (start, offset - 1), row)
    lines = (f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
    return sentence._replace(source="".join([blank, *lines]).encode())


def name_tag(tag: object, names: Sequence[str]) -> str:
    """A tag as text; a number is that of a name if there are names."""
    if isinstance(tag, int) and 0 <= tag < len(names):
        return names[tag]
    if names and isinstance(tag, int):
        raise ValueError(f"a tag must be a number below {len(names)}, but is {tag}.")
    return str(tag).strip()
