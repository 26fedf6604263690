"""JSON as users have it: packed or not, with or without a byte order mark, sometimes cut off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import BOM, decoded, unpacked


class Answer(NamedTuple):
    """A place in a passage."""

    text: str
    begin: int
    """Its first character, from 0."""

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


class Asked(NamedTuple):
    """A question to be answered with a part of the passage."""

    name: str
    """Its id, by which its answer is known."""
    text: str
    answers: tuple[Answer, ...]
    """All that are right; none where there is none, or where it is not known."""
    none: bool
    """Whether the passage has no answer to it."""
    place: str
    """Where in the file it stands, in words."""

    @property
    def known(self) -> bool:
        return self.none or bool(self.answers)


class Choice(NamedTuple):
    """A question to be answered with one of several options."""

    name: str
    options: tuple[str, ...]
    """What is read behind the passage: the question with each option, or how the text goes on."""
    answer: int | None
    """The right one's place, from 0; None where it is not known."""
    group: str
    """What its figures are told apart by, such as middle or high; empty where nothing is."""


class Passage(NamedTuple):
    """A text and what is asked about it."""

    text: str
    asked: Sequence[Asked] = ()
    choices: Sequence[Choice] = ()


class Problem(NamedTuple):
    """Something that cannot be read as it stands."""

    path: Path
    where: str
    what: str
    kept: bool = False
    """Whether the question stays all the same, since it is only to be judged."""
    lost: int = 1
    """How many questions are left out for it, as far as is known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.where}: {self.what}"


class Source(NamedTuple):
    """A file, or a folder of them, as it was read."""

    path: Path
    passages: Sequence[Passage]
    problems: Sequence[Problem]
    notes: Sequence[str] = ()
    """What else must be told, such as files that were passed over."""
    none_allowed: bool = False
    """Whether questions may have no answer, as in SQuAD 2.0."""


def size_of(text: str) -> int:
    """Bytes in UTF-8, also of halves of characters, which JSON can spell."""
    return len(text.encode("utf-8", "surrogatepass"))


class NotJson(ToolkitError):
    """Raised for a file that is none; knows what is wrong where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem} Copy it again.")
        self.problem = problem


def read_json(path: Path) -> Any:
    """What a file holds; where it is no JSON, an error that names line and column."""
    text = decoded(path, unpacked(path).removeprefix(BOM))
    if not text.strip():
        raise NotJson(Problem(path, "1", "the file must hold JSON, but is empty."))
    try:
        return json.loads(text)
    except RecursionError as error:
        what = "the file must hold questions, but nests things without end."
        raise NotJson(Problem(path, "1", what)) from error
    except json.JSONDecodeError as error:
        raise NotJson(fault_of(path, text, error)) from error


def fault_of(path: Path, text: str, error: json.JSONDecodeError) -> Problem:
    """With the line, and the column unless it is the end."""
    ends = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
    line = text.count("\n") + 1 if ends else error.lineno
    fault = "ends too early: it was cut off" if ends else f"is none ({error.msg})"
    size = f", which has {len(text):,} characters"
    at = f"at column {error.colno}" if not ends else f"behind {text[-20:]!r}{size}"
    return Problem(path, str(line), f"the file must be JSON to its end, but {fault} {at}.")
