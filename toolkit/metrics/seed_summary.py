"""Summary statistics over the seeds of a configuration."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


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
