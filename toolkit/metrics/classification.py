"""How well answers agree with the right ones, over all of a split: the figures of GLUE.

x answers given   y right answers   C[y, x] how often a class was given for another
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]


def accuracy(y: Numbers, x: Numbers) -> float:
    """The share of equal ones."""
    return float(np.mean(y == x)) if len(y) else math.nan


def f1(y: Numbers, x: Numbers, positive: int = 1) -> float:
    """2 C[1, 1] / (sum_x C[1, x] + sum_y C[y, 1]) (van Rijsbergen 1979); 0 where nothing is 1."""
    hits = int(np.sum((y == positive) & (x == positive)))
    met = int(np.sum(y == positive) + np.sum(x == positive))
    return 2 * hits / met if met else 0.0


def matthews(y: Numbers, x: Numbers) -> float:
    """(c s - sum_k t_k p_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2)) (Gorodkin 2004).

    c of s are right, t_k are of class k and p_k are given it; with two classes it is Matthews'
    (1975). 0 where all are of one class, or are given one.
    """
    if not len(y):
        return math.nan
    classes = int(max(y.max(), x.max())) + 1
    t, p = np.bincount(y, minlength=classes), np.bincount(x, minlength=classes)
    right, size = int(np.sum(y == x)), len(y)
    over = right * size - exact(t, p)
    under = (size * size - exact(p, p)) * (size * size - exact(t, t))
    return over / math.sqrt(under) if under else 0.0


def exact(one: Numbers, other: Numbers) -> int:
    """A product of vectors of whole numbers, however large."""
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def pearson(y: Numbers, x: Numbers) -> float:
    """sum (x - mean x)(y - mean y) / (|x - mean x| |y - mean y|); NaN where one is constant."""
    if len(y) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan
    if np.all(x == x[0]) or np.all(y == y[0]):
        return math.nan
    a, b = unit(x.astype(np.float64)), unit(y.astype(np.float64))
    return float(np.clip(a @ b, -1.0, 1.0))


def unit(values: Numbers) -> Numbers:
    """Without its mean, of length 1; scaled first, so that no square overflows or vanishes."""
    centred = values - values.mean()
    scaled = centred / np.abs(centred).max()
    return scaled / math.sqrt(scaled @ scaled)


def spearman(y: Numbers, x: Numbers) -> float:
    """Pearson's coefficient of the ranks, equal values sharing their mean (Spearman 1904)."""
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan
    return pearson(ranks(y), ranks(x))


def ranks(values: Numbers) -> Numbers:
    """1 .. N by size; equal values share the mean of their ranks."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Numbers = (last - (counts - 1) / 2)[which]
    return shared


OF_CLASSES = {"accuracy": accuracy, "f1": f1, "matthews": matthews}
OF_NUMBERS = {"pearson": pearson, "spearman": spearman}


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
