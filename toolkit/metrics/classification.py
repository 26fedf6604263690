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


def accuracy(labels: Numbers, predictions: Numbers) -> float:
    """The share of equal ones."""
    return float(np.mean(labels == predictions)) if len(labels) else math.nan


def f1(labels: Numbers, predictions: Numbers, positive: int = 1) -> float:
    """2 C[1, 1] / (sum_x C[1, x] + sum_y C[y, 1]) (van Rijsbergen 1979); 0 where nothing is 1."""
    hits = int(np.sum((labels == positive) & (predictions == positive)))
    met = int(np.sum(labels == positive) + np.sum(predictions == positive))
    return 2 * hits / met if met else 0.0


def matthews(labels: Numbers, predictions: Numbers) -> float:
    """(c s - sum_k t_k p_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2)) (Gorodkin 2004).

    c of s are right, t_k are of class k and p_k are given it; with two classes it is Matthews'
    (1975). 0 where all are of one class, or are given one.
    """
    if not len(labels):
        return math.nan
    classes = int(max(labels.max(), predictions.max())) + 1
    t, p = np.bincount(labels, minlength=classes), np.bincount(predictions, minlength=classes)
    right, size = int(np.sum(labels == predictions)), len(labels)
    over = right * size - integer_dot(t, p)
    under = (size * size - integer_dot(p, p)) * (size * size - integer_dot(t, t))
    return over / math.sqrt(under) if under else 0.0


def integer_dot(one: Numbers, other: Numbers) -> int:
    """A product of vectors of whole numbers, however large."""
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def pearson(labels: Numbers, predictions: Numbers) -> float:
    """sum (x - mean x)(y - mean y) / (|x - mean x| |y - mean y|); NaN where one is constant."""
    if len(labels) < 2 or not (np.isfinite(predictions).all() and np.isfinite(labels).all()):
        return math.nan
    if np.all(predictions == predictions[0]) or np.all(labels == labels[0]):
        return math.nan
    a, b = (
        center_and_normalize(predictions.astype(np.float64)),
        center_and_normalize(labels.astype(np.float64)),
    )
    return float(np.clip(a @ b, -1.0, 1.0))


def center_and_normalize(values: Numbers) -> Numbers:
    """Without its mean, of length 1; scaled first, so that no square overflows or vanishes."""
    centerd = values - values.mean()
    scaled = centerd / np.abs(centerd).max()
    return scaled / math.sqrt(scaled @ scaled)


def spearman(labels: Numbers, predictions: Numbers) -> float:
    """Pearson's coefficient of the ranks, equal values sharing their mean (Spearman 1904)."""
    if not (np.isfinite(predictions).all() and np.isfinite(labels).all()):
        return math.nan
    return pearson(ranks(labels), ranks(predictions))


def ranks(values: Numbers) -> Numbers:
    """1 .. N by size; equal values share the mean of their ranks."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Numbers = (last - (counts - 1) / 2)[which]
    return shared


CLASSIFICATION_METRICS = {"accuracy": accuracy, "f1": f1, "matthews": matthews}
REGRESSION_METRICS = {"pearson": pearson, "spearman": spearman}


Counts = npt.NDArray[np.int64]


class ClassMetrics(NamedTuple):
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


def confusion_matrix(gold: Counts, given: Counts, classes: int) -> Counts:
    """The table; gold classes below 0 are counted in a last row."""
    rows = np.where(gold < 0, classes, gold)
    return np.bincount(rows * classes + given, minlength=(classes + 1) * classes).reshape(
        classes + 1, classes
    )


def class_metrics(table: Counts, names: Sequence[str]) -> list[ClassMetrics]:
    """Figures of each class that is there or was given."""
    found = []
    for place, name in enumerate(names):
        right = int(table[place, place])
        items, said = int(table[place].sum()), int(table[:, place].sum())
        if items or said:
            f1 = 2 * right / (items + said)  # = 2 P R / (P + R)
            found.append(ClassMetrics(name, ratio(right, said), ratio(right, items), f1, items))
    return found


def macro_f1(table: Counts, names: Sequence[str]) -> float:
    """The mean F1 of the classes that are there or were given."""
    return float(np.mean([it.f1 for it in class_metrics(table, names)]))


def ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
