"""Questions: their columns in a folder, those of a split, and those of files before encoding.

Every item is a question. The columns of its passage are stored with the passage's first question
and are empty for the others, which store how many items back that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, JsonObject, decode, name_file, parse
from toolkit.config.declared import Options
from toolkit.data.preprocessing.input_files import FileNames, SplitFiles
from toolkit.data.preprocessing.report import Problem
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder, check_kind
from toolkit.data.text_files import check_exists, read_text


@dataclass(frozen=True, kw_only=True)
class QaFormatConfig(Options, section="format"):
    """Options of the formats for questions."""

    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a question that is incomplete, or whose answer is not at its offset. error:
    stop and name its file and line. skip: leave it out, report and count it; not in data to be
    submitted."""


SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
TOKEN_IDS = "ids"
"""Stands for the dtype of the vocabulary's ids."""
SQUAD_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, QUESTION: TOKEN_IDS, TEXT: "<u1", RECORD: "<u1"},
    **dict.fromkeys((BEGINS, ENDS, BACK, SPAN), "<i4"),
}
CHOICE_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, OPTIONS: TOKEN_IDS, RECORD: "<u1"},
    **dict.fromkeys((BACK, COUNTS, ANSWER), "<i4"),
}


FORMATS = {SQUAD: "squad", MULTIPLE_CHOICE: "race or swag"}


class LocatedPassage(NamedTuple):
    """A passage as in its file, and the span of each token in it."""

    text: str
    begins: IntArray
    ends: IntArray


class QuestionSplit:
    """Questions, each with its passage. Texts are read on demand."""

    kind: str

    def __init__(self, folder: DataFolder, split: str) -> None:
        options = f"--format {FORMATS[self.kind]}"
        check_kind(folder, self.kind, task=self.kind, holds="questions", options=options)
        self.folder, self.name, self.vocabulary = folder, split, folder.vocabulary
        self._column = folder.split(split).column
        self.passages = TokenColumn(self._column(CONTEXT))
        back = self._column(BACK).read_all()
        self.passage_items: IntArray = np.arange(len(back)) - back
        """The item that has the passage of each question."""
        self.passage_lengths = self.passages.lengths[self.passage_items].astype(np.int64)

    def __len__(self) -> int:
        return len(self.passage_items)

    @cached_property
    def records(self) -> list[JsonObject]:
        """The id of each question, and what its evaluation needs."""
        column = self._column(RECORD)
        data = column.read_all().astype(np.uint8).tobytes()
        ends = np.cumsum(TokenColumn(column).lengths).tolist()
        with name_file(self.folder.path, "Run toolkit-preprocess again."):
            return [decode(data[start:end], JsonObject) for start, end in pairwise([0, *ends])]


class SquadSplit(QuestionSplit):
    """Questions whose answers are parts of their passages."""

    kind = SQUAD

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.questions = TokenColumn(self._column(QUESTION))
        self.spans = self._column(SPAN).read_all().reshape(-1, 2)
        """First and last token of an answer; -1 if unanswerable, -2 if unknown."""
        sources = [source for source in folder.sources if split in source.splits]
        self.none_allowed = any(source.counts(split).get("none_allowed") for source in sources)
        """Whether a passage may have no answer, as in SQuAD 2.0."""
        columns = (TEXT, BEGINS, ENDS)
        self._text, self._begins, self._ends = (TokenColumn(self._column(c)) for c in columns)
        self._last: tuple[int, LocatedPassage] | None = None

    def read_passage(self, question: int) -> LocatedPassage:
        """The question's passage; the one that was read last is cached."""
        item = int(self.passage_items[question])
        if self._last is None or self._last[0] != item:
            data, begins, ends = (
                column.take(np.array([item]), column.lengths[item : item + 1]).ids
                for column in (self._text, self._begins, self._ends)
            )
            text = data.astype(np.uint8).tobytes().decode("utf-8", "surrogatepass")
            self._last = item, LocatedPassage(text, begins, ends)
        return self._last[1]


class ChoiceSplit(QuestionSplit):
    """Questions with several options each."""

    kind = MULTIPLE_CHOICE

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.options = TokenColumn(self._column(OPTIONS))
        """All options of a question back to back."""
        self.answers = self._column(ANSWER).read_all()
        """Index of the correct option; -1 if unknown."""
        counts = self._column(COUNTS)
        self.option_lengths = counts.read_all()
        """Tokens of every option, question by question."""
        self.option_counts = np.concatenate([np.diff(part.offsets) for part in counts.parts])
        """Number of options per question."""


SQUAD_FILES: FileNames = {
    "train": ("train-v1.1.json", "train-v2.0.json", "train.json"),
    "valid": ("dev-v1.1.json", "dev-v2.0.json", "dev.json"),
    "test": ("test-v1.1.json", "test-v2.0.json", "test.json"),
}
SWAG_FILES: FileNames = {
    "train": ("train.csv", "train_full.csv"),
    "valid": ("val.csv", "val_full.csv"),
    "test": ("test.csv",),
}
RACE_FOLDERS = {"train": "train", "valid": "dev", "test": "test"}


def list_race_folders(inputs: Mapping[str, str]) -> SplitFiles:
    """Split -> its folders; trainpref alone may name the folder that has them all."""
    if set(inputs) == {"train"}:
        folders = {split: Path(inputs["train"]) / name for split, name in RACE_FOLDERS.items()}
        if folders["train"].is_dir():
            return {split: [folder] for split, folder in folders.items() if folder.is_dir()}
    return {
        split: [check_exists(f"{split}pref", Path(name)) for name in names.split(",") if name]
        for split, names in inputs.items()
    }


class GoldAnswer(NamedTuple):
    """An answer and its offset in the passage."""

    text: str
    start: int
    """Its first character, counted from 0."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class SpanQuestion(NamedTuple):
    """A question to be answered with a part of the passage."""

    name: str
    """Its id."""
    text: str
    answers: tuple[GoldAnswer, ...]
    """All correct answers; empty if unanswerable or unknown."""
    unanswerable: bool
    """Whether the passage does not answer it."""
    location: str
    """Its file and its location there."""

    @property
    def labeled(self) -> bool:
        return self.unanswerable or bool(self.answers)


class ChoiceQuestion(NamedTuple):
    """A question to be answered with one of several options."""

    name: str
    options: tuple[str, ...]
    """Texts to read after the passage: the question with each option, or continuations."""
    answer: int | None
    """Index of the correct option; None if unknown."""
    group: str
    """Group for separate metrics, such as middle or high; may be empty."""


class Passage(NamedTuple):
    """A text and the questions about it."""

    text: str
    questions: Sequence[SpanQuestion] = ()
    choices: Sequence[ChoiceQuestion] = ()


class QuestionSource(NamedTuple):
    """The contents of a file, or of a folder of files."""

    path: Path
    passages: Sequence[Passage]
    problems: Sequence[Problem]
    notes: Sequence[str] = ()
    """Further remarks, such as skipped files."""
    none_allowed: bool = False
    """Whether questions may have no answer, as in SQuAD 2.0."""


def utf8_size(text: str) -> int:
    """Number of bytes in UTF-8, including surrogates, which JSON can encode."""
    return len(text.encode("utf-8", "surrogatepass"))


class InvalidJsonError(ToolkitError):
    """Raised for a file that is not JSON."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem} Copy it again.")
        self.problem = problem


def read_json_text(path: Path) -> object:
    """The value in a JSON file; an error names line and column."""
    text = read_text(path, may_be_empty=True)
    if not text.strip():
        raise InvalidJsonError(Problem(path, "1", "the file must hold JSON, but is empty."))
    try:
        return parse(text)
    except JsonError as error:
        raise InvalidJsonError(describe_json_error(path, text, error)) from error


def describe_json_error(path: Path, text: str, problem: JsonError) -> Problem:
    """The problem with its line, and with its column unless the file was cut off."""
    error = problem.__cause__
    if not isinstance(error, json.JSONDecodeError):
        return Problem(path, "1", f"the file must hold questions, but is {problem}.")
    line, fault = error.lineno, f"is not ({error.msg}) at column {error.colno}"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        line = text.count("\n") + 1
        size = f"which has {len(text):,} characters"
        fault = f"ends too early: it was cut off after {text[-20:]!r}, {size}"
    return Problem(path, str(line), f"the file must be JSON to its end, but {fault}.")
