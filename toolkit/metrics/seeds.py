"""Summaries over seeds, and tests of the difference between paired numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Mean, spread and range of a metric over seeds."""

    mean: float
    deviation: float | None
    """Standard deviation with n - 1; None for a single value."""
    standard_error: float | None
    """Standard error of the mean, deviation / sqrt(n)."""
    median: float
    n: int
    minimum: float
    maximum: float


def summarize(values: Sequence[float]) -> SeedSummary:
    """Mean, sqrt(sum (x - mean)^2 / (n - 1)), median, count and range of one or more values.

    With a NaN among the values, all are NaN except the count and the range of the other values.
    """
    n, numbers = len(values), [x for x in values if not math.isnan(x)] or [math.nan]
    mean = sum(values) / n
    squares = sum((x - mean) * (x - mean) for x in values)
    deviation = math.sqrt(squares / (n - 1)) if n > 1 else None
    return SeedSummary(
        mean=mean,
        deviation=deviation,
        standard_error=None if deviation is None else deviation / math.sqrt(n),
        median=statistics.median(numbers) if len(numbers) == n else math.nan,
        n=n,
        minimum=min(numbers),
        maximum=max(numbers),
    )


CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """The mean of a - b over n pairs; what cannot be computed is None."""

    n: int
    mean: float | None = None
    """None without pairs, or with a value that is not finite."""
    standard_error: float | None = None
    """Standard error of the mean difference; None for a single pair."""
    low: float | None = None
    high: float | None = None
    """Ends of the 95% interval of the mean difference."""
    p: float | None = None
    """Two-sided p-value of a mean difference of 0."""
    sign_p: float | None = None
    """Two-sided p-value of a and b being larger equally often."""


def compare_pairs(a: Sequence[float], b: Sequence[float]) -> PairedDifference:
    """Paired t-test with its interval, and the sign test, of a - b (Dror et al. 2018, section 3).

    What two runs of one seed share cancels in their difference (Bouthillier et al. 2021, section
    4). The t-test takes the differences as normal; with n pairs the p of the sign test is at least
    2^(1 - n). Differences that are all equal have no spread: p is then that of the sign test.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n = len(x)
    if n == 0 or not np.isfinite([x, y]).all():
        return PairedDifference(n=n)
    difference = x - y
    mean = float(difference.mean())
    if n == 1:
        return PairedDifference(n=n, mean=mean)
    positive, negative = int((difference > 0).sum()), int((difference < 0).sum())
    signs = positive + negative  # zeros are left out
    sign_p = float(stats.binomtest(positive, signs, 0.5).pvalue) if signs else 1.0
    rounding = 8 * np.finfo(np.float64).eps * np.abs([x, y]).max()
    if np.ptp(difference) <= rounding:
        return PairedDifference(n=n, mean=mean, standard_error=0.0, p=sign_p, sign_p=sign_p)
    test = stats.ttest_rel(x, y)
    low, high = map(float, test.confidence_interval(CONFIDENCE))
    error = float(stats.sem(difference))
    p = float(test.pvalue)
    return PairedDifference(
        n=n, mean=mean, standard_error=error, low=low, high=high, p=p, sign_p=sign_p
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)), p sorted (Holm 1979).

    Rejecting those of at most 0.05 makes any false rejection among all m at most 5% likely,
    however the tests depend on each other.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
