"""From the characters of an answer to the tokens that hold it, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.formats.qa.passages import Answer

Numbers = npt.NDArray[np.int64]
Span = tuple[int, int]
NO_ANSWER: Span = (-1, -1)
UNKNOWN: Span = (-2, -2)


class Miss(NamedTuple):
    """An answer that its tokens do not give back as it is."""

    place: str
    wanted: str
    found: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.wanted!r} is read as {self.found!r}, {self.why}"


def tokens_of(begins: Numbers, ends: Numbers, begin: int, end: int) -> Span | None:
    """The first and the last token that stand for a character from `begin` to before `end`."""
    inside = np.flatnonzero((begins < end) & (ends > begin) & (ends > begins))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def characters_of(begins: Numbers, ends: Numbers, first: int, last: int) -> tuple[int, int]:
    """The characters from token to token; some before may stand for none."""
    return int(begins[first]), max(int(begins[first]), int(ends[last]))


def miss_of(place: str, answer: Answer, text: str, begins: Numbers, ends: Numbers) -> Miss | None:
    """None where the tokens' text is the answer; white space at its edges is no part of it."""
    span = tokens_of(begins, ends, answer.begin, answer.end)
    if span is None:
        return Miss(place, answer.text, "", "no token stands for it")
    begin, end = characters_of(begins, ends, *span)
    found = text[begin:end]
    if found == answer.text.strip():
        return None
    at = answer.begin + len(answer.text) - len(answer.text.lstrip())
    before = "it begins" if begin < at else ""
    behind = "it ends" if end > answer.begin + len(answer.text.rstrip()) else ""
    why = " and ".join(filter(None, (before, behind))).replace("and it", "and")
    return Miss(place, answer.text, found, f"since {why} inside a token" if why else "cut short")
