"""Labeled rows of JSON lines, CSV, TSV, Parquet, Arrow and saved datasets of Hugging Face.

A row becomes what the other formats of its task read: data folders do not depend on the kind of
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import BoolArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, JsonObject, parse
from toolkit.config.declared import NonNegativeInt, Rate
from toolkit.data.formats.format import (
    AnyTokenizer,
    Content,
    Format,
    MalformedOptions,
    Problem,
    SplitReport,
    list_first,
)
from toolkit.data.formats.parallel import ParallelFormatConfig
from toolkit.data.formats.tagging.tokenizer import TaggingFormatConfig
from toolkit.data.preprocessing.input_files import SplitFiles, list_row_splits
from toolkit.data.raw_items import InputField, ItemValues, check_names, read_record
from toolkit.data.records import Record, read_features, read_rows


@dataclass(frozen=True, kw_only=True)
class RowsConfig(TaggingFormatConfig, ParallelFormatConfig, MalformedOptions):
    """Options of the format for labeled rows."""

    text_columns: str = ""
    """Names of the columns with the texts, separated by a comma: one, or two for pairs; source and
    target of translations; context and options; question and context. Default: sentence or text;
    the languages; the names that toolkit-predict knows."""
    label_column: str = ""
    """Name of the column with the label; test files may lack it. Default: label; answers."""
    label_type: Literal["auto", "class", "number", "tags", "option", "answer"] = "auto"
    """What the label is: a class, a number, a tag for each word, the correct one of several
    options, or an answer in the context. auto: tags if --tags-column or --words-column is given, a
    translation if --source-lang is given, else a class."""
    source_lang: str = ""
    """Source language, such as de: the name of its column, or in the column translation."""
    target_lang: str = ""
    """Target language, such as en."""
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
    def like(self) -> str:
        """The format whose files hold the same data."""
        if self.label_type == "auto" and (self.source_lang or self.target_lang):
            return "parallel"
        if self.label_type == "auto" and (self.words_column or self.tags_column):
            return "columns"
        return {"tags": "columns", "option": "swag", "answer": "squad"}.get(self.label_type, "tsv")


class LabeledRows(Format[Content, AnyTokenizer]):
    """Base class of labeled rows; a subclass derives from the format of its task too."""

    options: RowsConfig
    split = ""
    naming = "--text-columns"
    """The options that name the columns of `read_values`."""

    def check(self) -> None:
        super().check()
        self.kept: dict[tuple[str, Path], BoolArray] = {}
        """Split and file -> whether each row of the file belongs to the split, if not all do."""
        self.left_out: dict[str, list[Problem]] = defaultdict(list)
        """Split -> the malformed rows that the format of the task does not report."""

    def list_files(self) -> SplitFiles:
        return list_row_splits(self.config.inputs)

    def read(self) -> dict[str, Content]:
        files = self.list_files()
        if self.options.valid_fraction:
            if "valid" in files or "train" not in files:
                raise ToolkitError(
                    f"--valid-fraction requires training rows and no other validation rows, but "
                    f"the splits are {', '.join(files)}. Leave it out."
                )
            for path in files["train"]:
                strata = [str(self.stratum(it.values)) for it in read_rows(path)]
                held = choose_held_out(strata, self.options.valid_fraction, self.options.seed)
                self.kept |= {("train", path): ~held, ("valid", path): held}
            files = {"train": files["train"], "valid": files["train"], **files}
        splits = {}
        for self.split, paths in files.items():
            splits[self.split] = self.read_split(self.split, paths)
        return splits

    def stratum(self, values: Any) -> object:
        """What the rows that are held out must have as often as the others."""
        return ""

    def records(self, path: Path) -> Iterator[tuple[int, Record]]:
        """The rows of a file that belong to the split, with their numbers from 0."""
        kept = self.kept.get((self.split, path))
        for number, record in enumerate(read_rows(path)):
            if kept is None or kept[number]:
                yield number, record

    def report_split(self, split: str, content: Content | None, entry: JsonObject) -> SplitReport:
        report, problems = super().report_split(split, content, entry), self.left_out[split]
        return report._replace(
            notes=[*report.notes, *list_first(split, "left out", problems)],
            events=[*report.events, *(problem.row_event() for problem in problems)],
        )

    def read_values(self, record: Record, fields: Sequence[InputField]) -> ItemValues:
        """What a row has in these fields. Raises ValueError for a malformed row."""
        if not isinstance(record.values, dict):
            raise ValueError("the row must be an object with names of columns.")
        try:
            check_names(fields, record.values, self.naming)
        except ToolkitError as error:
            raise record.error(str(error)) from None
        try:
            return read_record(fields, record.values)
        except ToolkitError as error:
            raise ValueError(str(error)) from None


def choose_held_out(strata: Sequence[str], fraction: float, seed: int) -> BoolArray:
    """Hold out round(n f) of n rows, at least one, and of every stratum its part, up to one row.

    Rows are in random order within their stratum, whose first row always stays. Of the m others,
    row k is held out if round(k f') increases from k to k + 1, with f' = round(n f) / m.
    """
    _, ids = np.unique(np.array(strata, object), return_inverse=True)
    order = np.lexsort((np.random.default_rng(seed).random(len(ids)), ids))
    others = np.cumsum([0, *(np.diff(ids[order], prepend=-1) == 0)])
    count = min(max(1, int(len(ids) * fraction + 0.5)), others[-1])
    steps = np.floor(others * (count / max(1, others[-1])) + 0.5)
    held: npt.NDArray[np.bool_] = np.zeros(len(ids), bool)
    held[order] = np.diff(steps) > 0
    return held


def read_class_names(path: Path) -> dict[str, list[str]]:
    """Column -> names of the classes that its numbers stand for, as Hugging Face stores them."""
    try:
        features = parse(read_features(path)).get("info", {}).get("features", {})
    except (JsonError, AttributeError):
        features = {}
    names = dict[str, list[str]]()
    for column, feature in features.items():
        if isinstance(feature, list):  # as of lists before datasets 4
            [feature] = feature
        feature = feature.get("feature", feature)
        if feature.get("_type") == "ClassLabel":
            names[column] = feature["names"]
    return names
