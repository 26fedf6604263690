"""Labeled rows of JSON lines, CSV, TSV, Parquet, Arrow and saved datasets of Hugging Face.

The ending of a file says how its rows are read; options name their columns. A row becomes what the
other formats of its task read, so that data folders do not depend on the kind of file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import BoolArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, parse
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.declared import NonNegativeInt, Rate
from toolkit.data.formats.classification.format import ClassificationFormat
from toolkit.data.formats.classification.split import (
    ClassificationFormatConfig,
    ClassificationTokenizer,
)
from toolkit.data.formats.classification.tables import (
    LabeledTable,
    TableRow,
    TableSchema,
    parse_label,
)
from toolkit.data.formats.format import AnyTokenizer, Content, Format, Problem
from toolkit.data.formats.tagging.format import TaggingFormat
from toolkit.data.formats.tagging.tokenizer import TaggingFormatConfig, TaggingTokenizer
from toolkit.data.formats.tagging.treebanks import MISSING_TAG, TaggedFile, TaggedSentence
from toolkit.data.preprocessing.input_files import list_row_splits
from toolkit.data.raw_items import (
    InputField,
    ItemValues,
    check_names,
    describe,
    read_record,
    split_at_spaces,
    to_single_line,
)
from toolkit.data.records import Record, has_rows, open_arrow, read_rows


@dataclass(frozen=True, kw_only=True)
class RowsConfig(TaggingFormatConfig, ClassificationFormatConfig):
    """Options of the format for labeled rows."""

    text_columns: str = ""
    """Names of the columns with the texts, separated by commas: one, or two for pairs. Default:
    sentence or text."""
    label_column: str = ""
    """Name of the column with the label; test files may lack it. Default: label."""
    label_type: Literal["auto", "class", "number", "tags"] = "auto"
    """What the label is: a class, a number, or a tag for each word. auto: tags if --tags-column or
    --words-column is given, else a class."""
    words_column: str = ""
    """Name of the column with the words, a list or a text with spaces. Default: words or tokens."""
    tags_column: str = ""
    """Name of the column with the tag of each word. Default: tags."""
    valid_fraction: Rate = 0.0
    """Fraction of the training rows to hold out as split valid, drawn at random with the same
    fraction of each class."""
    seed: NonNegativeInt = 1
    """Seed of this choice."""

    @property
    def has_tags(self) -> bool:
        """Whether the labels are tags of words."""
        given = self.label_type == "auto" and bool(self.words_column or self.tags_column)
        return given or self.label_type == "tags"


class LabeledRows(Format[Content, AnyTokenizer]):
    """Base class of labeled rows; a subclass derives from the format of its task too."""

    options: RowsConfig
    split = ""
    """The split that is read."""
    naming = "--text-columns"
    """The options that name the columns of `read_values`."""

    def check(self) -> None:
        super().check()
        self.kept: dict[tuple[str, Path], BoolArray] = {}
        """Split and file -> whether each row of the file belongs to the split, if not all do."""

    def read(self) -> dict[str, Content]:
        files = list_row_splits(self.config.inputs)
        if self.options.valid_fraction:
            if "valid" in files or "train" not in files:
                raise ToolkitError(
                    f"--valid-fraction requires training rows and no other validation rows, but "
                    f"the splits are {', '.join(files)}. Leave it out."
                )
            self.hold_out(files["train"])
            files = {"train": files["train"], "valid": files["train"], **files}
        splits = {}
        for self.split, paths in files.items():
            splits[self.split] = self.read_split(self.split, paths)
        return splits

    def stratum(self, values: Any) -> object:
        """What the rows that are held out must have as often as the others."""
        return ""

    def hold_out(self, files: Sequence[Path]) -> None:
        """Choose rows of the training files for validation."""
        for path in files:
            strata = [str(self.stratum(it.values)) for it in read_rows(path)]
            held = choose_held_out(strata, self.options.valid_fraction, self.options.seed)
            self.kept |= {("train", path): ~held, ("valid", path): held}

    def records(self, path: Path) -> Iterator[tuple[int, Record]]:
        """The rows of a file that belong to the split, with their numbers from 0."""
        kept = self.kept.get((self.split, path))
        for number, record in enumerate(read_rows(path)):
            if kept is None or kept[number]:
                yield number, record

    def read_values(self, record: Record, fields: Sequence[InputField]) -> ItemValues:
        """What a row has in these fields. Raises ValueError for a malformed row."""
        if record.problem or not isinstance(record.values, dict):
            problem = record.problem or "the row must be an object with names of columns."
            raise ValueError(problem.removesuffix(" Correct the row."))
        try:
            check_names(fields, record.values, self.naming)
        except ToolkitError as error:
            raise record.error(str(error)) from None
        try:
            return read_record(fields, record.values)
        except ToolkitError as error:
            raise ValueError(str(error)) from None


def choose_held_out(strata: Sequence[str], fraction: float, seed: int) -> BoolArray:
    """Hold out row k of n if round(k f) increases from k to k + 1.

    Rows are in random order within their stratum, whose first row always stays. Every stratum has
    its fraction, up to one row.
    """
    _, ids = np.unique(np.array(strata, object), return_inverse=True)
    order = np.lexsort((np.random.default_rng(seed).random(len(ids)), ids))
    steps = np.floor(np.arange(len(ids) + 1) * fraction + 0.5)
    held: npt.NDArray[np.bool_] = np.zeros(len(ids), bool)
    held[order] = (np.diff(steps) > 0) & (np.diff(ids[order], prepend=-1) == 0)
    return held


class ClassifiedRows(
    LabeledRows[list[LabeledTable], ClassificationTokenizer], ClassificationFormat
):
    """A text, or two, with a class or a number."""

    options: RowsConfig

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
        rows, problems = list[TableRow](), list[Problem]()
        names = read_class_names(path).get(self.label_column, [])
        if names and not self.schema.classes:
            self.schema = replace(self.schema, classes=tuple(names))
        for number, record in self.records(path):
            try:
                texts = self.read_values(record, self.fields).values()
                label = self.read_label(record, names)
                lines = tuple(to_single_line(str(text)).strip() for text in texts)
                rows.append(TableRow(record.line, number, lines, label))
            except ToolkitError:  # of the whole file
                raise
            except ValueError as error:
                problems.append(Problem(path, str(record.line), str(error)))
        if not rows and not problems:
            raise ToolkitError(f"{path} must hold rows, but has none. Give another file.")
        return LabeledTable(path, rows, problems)

    def read_label(self, record: Record, names: Sequence[str]) -> str | None:
        """The label as the tables of GLUE have it; None without one, which only tests may lack."""
        column, is_test = self.label_column, self.split == "test"
        value = record.values.get(column) if is_test else record.value(column)
        if is_test and value in (None, "", -1):
            return None
        if isinstance(value, list | dict):
            raise ValueError(f"the answer must be a text or a number, but is {describe(value)}.")
        if names and isinstance(value, int):
            value = names[value] if 0 <= value < len(names) else None
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
        sentences = list[TaggedSentence]()
        for _, record in self.records(path):
            has_tags = isinstance(record.values, dict) and self.tags.name in record.values
            fields = [self.words] if untagged and not has_tags else [self.words, self.tags]
            try:
                values = self.read_values(record, fields)
                words = values[self.words.name]
                tags = values.get(self.tags.name, [MISSING_TAG] * len(words))
                named, is_first = [name_tag(tag, names) for tag in tags], not sentences
                sentences.append(make_sentence(words, named, record.line, is_first=is_first))
            except ToolkitError:
                raise
            except ValueError as error:
                raise record.error(f"{error} Correct the row.") from None
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


def read_class_names(path: Path) -> dict[str, list[str]]:
    """Column -> names of the classes that its numbers stand for, as Hugging Face stores them."""
    if not has_rows(path):
        return {}
    with open_arrow(path) as file:
        schema = file.schema_arrow if path.suffix == ".parquet" else file.schema
        stored = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = parse(stored.decode()).get("info", {}).get("features", {})
    except (JsonError, AttributeError, UnicodeDecodeError):
        features = {}
    names = dict[str, list[str]]()
    for column, feature in features.items():
        if isinstance(feature, list):  # as of lists before datasets 4
            [feature] = feature
        feature = feature.get("feature", feature)
        if feature.get("_type") == "ClassLabel":
            names[column] = feature["names"]
    return names


@register_format("rows", RowsConfig())
def build_rows_format(options: RowsConfig, config: PreprocessConfig) -> Format[Any, Any]:
    """Labeled rows, of the kind that the options say."""
    return (TaggedRows if options.has_tags else ClassifiedRows)(options, config)
