"""What several runs of one configuration say together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Summary:
    mean: float
    deviation: float | None
    """Standard deviation with n - 1; None for a single value, which has none."""
    n: int
    minimum: float
    maximum: float


def summary(values: Sequence[float]) -> Summary:
    """Mean, sqrt(sum (x - mean)^2 / (n - 1)), count and range of one or more values."""
    return Summary(
        mean=statistics.fmean(values),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        minimum=min(values),
        maximum=max(values),
    )
