"""Accuracy on minimal pairs, with ties and standard errors.

K paradigms   n_k pairs of paradigm k   N = sum_k n_k
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import FloatArray, IntArray

TIE = 0.5


class PairAccuracy(NamedTuple):
    """A mean over pairs: 1 if the good sentence has the higher score, 1/2 for a tie, else 0."""

    pairs: int
    accuracy: float
    standard_error: float
    ties: int


def compare_scores(
    good: FloatArray, bad: FloatArray, tolerance: float | FloatArray = 0.0
) -> FloatArray:
    """1, 1/2 or 0 for each pair; scores whose difference is within the tolerance are a tie."""
    difference = good - bad
    return np.where(np.abs(difference) <= tolerance, TIE, (difference > 0).astype(np.float64))


def pair_accuracy(results: FloatArray, strata: IntArray) -> PairAccuracy:
    """sum_k n_k mean_k / N, with the standard error sqrt(sum_k n_k var_k) / N.

    Paradigms are strata (Cochran 1977, section 5.3): var_k is the variance of the results within
    paradigm k. Differences between paradigms are no sampling error, for they are fixed.
    """
    within = 0.0
    for stratum in np.unique(strata):
        part = results[strata == stratum]
        within += float(((part - part.mean()) ** 2).sum())
    error = float(np.sqrt(within)) / len(results)
    return PairAccuracy(len(results), float(results.mean()), error, int((results == TIE).sum()))
