"""Passages with their questions, and the JSON files that hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, parse
from toolkit.data.preprocessing.benchmark_files import FileNames, SplitFiles
from toolkit.data.text_files import check_exists, read_text

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


class QuestionProblem(NamedTuple):
    """A malformed question or file."""

    path: Path
    where: str
    what: str
    kept: bool = False
    """Whether the question stays, because it is only used for evaluation."""
    lost: int = 1
    """Number of questions that are left out because of it, as far as known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.where}: {self.what}"


class QuestionSource(NamedTuple):
    """The contents of a file, or of a folder of files."""

    path: Path
    passages: Sequence[Passage]
    problems: Sequence[QuestionProblem]
    notes: Sequence[str] = ()
    """Further remarks, such as skipped files."""
    none_allowed: bool = False
    """Whether questions may have no answer, as in SQuAD 2.0."""


def utf8_size(text: str) -> int:
    """Number of bytes in UTF-8, including surrogates, which JSON can encode."""
    return len(text.encode("utf-8", "surrogatepass"))


class InvalidJsonError(ToolkitError):
    """Raised for a file that is not JSON."""

    def __init__(self, problem: QuestionProblem) -> None:
        super().__init__(f"{problem} Copy it again.")
        self.problem = problem


def read_json_text(path: Path) -> object:
    """The value in a JSON file; an error names line and column."""
    text = read_text(path, may_be_empty=True)
    if not text.strip():
        raise InvalidJsonError(QuestionProblem(path, "1", "the file must hold JSON, but is empty."))
    try:
        return parse(text)
    except JsonError as error:
        raise InvalidJsonError(describe_json_error(path, text, error)) from error


def describe_json_error(path: Path, text: str, problem: JsonError) -> QuestionProblem:
    """The problem with its line, and with its column unless the file was cut off."""
    error = problem.__cause__
    if not isinstance(error, json.JSONDecodeError):
        return QuestionProblem(path, "1", f"the file must hold questions, but is {problem}.")
    line, fault = error.lineno, f"is not ({error.msg}) at column {error.colno}"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        line = text.count("\n") + 1
        size = f"which has {len(text):,} characters"
        fault = f"ends too early: it was cut off after {text[-20:]!r}, {size}"
    return QuestionProblem(path, str(line), f"the file must be JSON to its end, but {fault}.")
