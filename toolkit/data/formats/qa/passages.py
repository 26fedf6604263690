"""JSON as users have it: packed or not, with or without a byte order mark, sometimes cut off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import read_text


class GoldAnswer(NamedTuple):
    """A place in a passage."""

    text: str
    start: int
    """Its first character, from 0."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class SpanQuestion(NamedTuple):
    """A question to be answered with a part of the passage."""

    name: str
    """Its id, by which its answer is known."""
    text: str
    answers: tuple[GoldAnswer, ...]
    """All correct answers; empty if unanswerable or unknown."""
    unanswerable: bool
    """Whether the passage has no answer to it."""
    location: str
    """Where in the file it stands, in words."""

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
    """A text and what is asked about it."""

    text: str
    questions: Sequence[SpanQuestion] = ()
    choices: Sequence[ChoiceQuestion] = ()


class QuestionProblem(NamedTuple):
    """A malformed question or file."""

    path: Path
    where: str
    what: str
    kept: bool = False
    """Whether the question stays, because it is only evaluated."""
    lost: int = 1
    """How many questions are left out for it, as far as is known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.where}: {self.what}"


class QuestionSource(NamedTuple):
    """A file, or a folder of them, as it was read."""

    path: Path
    passages: Sequence[Passage]
    problems: Sequence[QuestionProblem]
    notes: Sequence[str] = ()
    """Further remarks, such as files that were passed over."""
    none_allowed: bool = False
    """Whether questions may have no answer, as in SQuAD 2.0."""


def utf8_size(text: str) -> int:
    """Bytes in UTF-8, also of halves of characters, which JSON can spell."""
    return len(text.encode("utf-8", "surrogatepass"))


class InvalidJsonError(ToolkitError):
    """Raised for a file that is none; knows what is wrong where."""

    def __init__(self, problem: QuestionProblem) -> None:
        super().__init__(f"{problem} Copy it again.")
        self.problem = problem


def read_json_text(path: Path) -> Any:
    """What a file holds; where it is no JSON, an error that names line and column."""
    text = read_text(path, may_be_empty=True)
    if not text.strip():
        raise InvalidJsonError(QuestionProblem(path, "1", "the file must hold JSON, but is empty."))
    try:
        return json.loads(text)
    except RecursionError as error:
        what = "the file must hold questions, but nests things without end."
        raise InvalidJsonError(QuestionProblem(path, "1", what)) from error
    except json.JSONDecodeError as error:
        raise InvalidJsonError(describe_json_error(path, text, error)) from error


def describe_json_error(path: Path, text: str, error: json.JSONDecodeError) -> QuestionProblem:
    """With the line, and the column unless it is the end."""
    ends = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
    line = text.count("\n") + 1 if ends else error.lineno
    fault = "ends too early: it was cut off" if ends else f"is none ({error.msg})"
    size = f", which has {len(text):,} characters"
    at = f"at column {error.colno}" if not ends else f"after {text[-20:]!r}{size}"
    return QuestionProblem(path, str(line), f"the file must be JSON to its end, but {fault} {at}.")
