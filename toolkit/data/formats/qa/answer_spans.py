"""From the characters of an answer to the tokens that hold it, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.qa.passages import GoldAnswer

Span = tuple[int, int]
NO_ANSWER: Span = (-1, -1)
UNKNOWN: Span = (-2, -2)


class AnswerMismatch(NamedTuple):
    """An answer that its tokens do not give back as it is."""

    place: str
    wanted: str
    found: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.wanted!r} is read as {self.found!r}, {self.why}"


def token_span(begins: IntArray, ends: IntArray, begin: int, end: int) -> Span | None:
    """The first and the last token that stand for a character from `begin` to before `end`."""
    inside = np.flatnonzero((begins < end) & (ends > begin) & (ends > begins))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def character_span(begins: IntArray, ends: IntArray, first: int, last: int) -> tuple[int, int]:
    """The characters from token to token; some before may stand for none."""
    return int(begins[first]), max(int(begins[first]), int(ends[last]))


def find_mismatch(
    place: str, answer: GoldAnswer, text: str, begins: IntArray, ends: IntArray
) -> AnswerMismatch | None:
    """None where the tokens' text is the answer; white space at its edges is no part of it."""
    span = token_span(begins, ends, answer.start, answer.end)
    if span is None:
        return AnswerMismatch(place, answer.text, "", "no token stands for it")
    begin, end = character_span(begins, ends, *span)
    found = text[begin:end]
    if found == answer.text.strip():
        return None
    at = answer.start + len(answer.text) - len(answer.text.lstrip())
    before = "it begins" if begin < at else ""
    behind = "it ends" if end > answer.start + len(answer.text.rstrip()) else ""
    why = " and ".join(filter(None, (before, behind))).replace("and it", "and")
    return AnswerMismatch(
        place, answer.text, found, f"since {why} inside a token" if why else "cut short"
    )
