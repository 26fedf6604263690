"""Conversion between the characters of an answer and the tokens that cover them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.qa.passages import GoldAnswer

Span = tuple[int, int]
NO_ANSWER: Span = (-1, -1)
UNKNOWN: Span = (-2, -2)


class AnswerMismatch(NamedTuple):
    """An answer that differs from the text of its tokens."""

    where: str
    wanted: str
    found: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.wanted!r} is read as {self.found!r}, {self.why}"


def token_span(starts: IntArray, ends: IntArray, start: int, end: int) -> Span | None:
    """The first and the last token that cover a character from `start` to before `end`."""
    inside = np.flatnonzero((starts < end) & (ends > start) & (ends > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def character_span(starts: IntArray, ends: IntArray, first: int, last: int) -> tuple[int, int]:
    """The characters from the first to the last token, of which the last may cover none."""
    return int(starts[first]), max(int(starts[first]), int(ends[last]))


def find_mismatch(
    where: str, answer: GoldAnswer, text: str, starts: IntArray, ends: IntArray
) -> AnswerMismatch | None:
    """None if the tokens' text is the answer without white space at its ends."""
    span = token_span(starts, ends, answer.start, answer.end)
    if span is None:
        return AnswerMismatch(where, answer.text, "", "no token covers it")
    start, end = character_span(starts, ends, *span)
    if text[start:end] == answer.text.strip():
        return None
    starts_inside = start < answer.start + len(answer.text) - len(answer.text.lstrip())
    ends_inside = end > answer.start + len(answer.text.rstrip())
    edges = " and ".join(["begins"] * starts_inside + ["ends"] * ends_inside)
    why = f"since it {edges} inside a token" if edges else "cut short"
    return AnswerMismatch(where, answer.text, text[start:end], why)
