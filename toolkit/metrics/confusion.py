"""Which class was taken for which, and what follows: precision, recall, F1 (van Rijsbergen 1979).

C[g, p] counts the items of class g that were given class p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


class ClassFigures(NamedTuple):
    """Of one class; a ratio without a denominator is 0."""

    name: str
    precision: float
    """C[c, c] / sum_g C[g, c]: right among those given this class."""
    recall: float
    """C[c, c] / sum_p C[c, p]: found among those of this class."""
    f1: float
    """2 P R / (P + R)."""
    items: int
    """Items of this class."""


def confusion(gold: Counts, given: Counts, classes: int) -> Counts:
    """The table; gold classes below 0 are counted in a last row."""
    rows = np.where(gold < 0, classes, gold)
    return np.bincount(rows * classes + given, minlength=(classes + 1) * classes).reshape(
        classes + 1, classes
    )


def by_class(table: Counts, names: Sequence[str]) -> list[ClassFigures]:
    """Figures of each class that is there or was given."""
    found = []
    for place, name in enumerate(names):
        right = int(table[place, place])
        items, said = int(table[place].sum()), int(table[:, place].sum())
        if items or said:
            f1 = 2 * right / (items + said)  # = 2 P R / (P + R)
            found.append(ClassFigures(name, ratio(right, said), ratio(right, items), f1, items))
    return found


def macro_f1(table: Counts, names: Sequence[str]) -> float:
    """The mean F1 of the classes that are there or were given."""
    return float(np.mean([it.f1 for it in by_class(table, names)]))


def ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
