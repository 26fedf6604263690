"""The best configuration of a sweep, and those that its runs cannot tell from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from toolkit.metrics.paired_tests import PairedDifference, holm
from toolkit.metrics.seed_summary import SeedSummary
from toolkit.sweep.pairing import Configuration, compare_equal_seeds
from toolkit.training.callbacks.validation import is_improvement, lower_is_better

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class RankedRow:
    """A configuration next to the best one."""

    configuration: Configuration
    value: float
    """What the configurations are ranked by."""
    difference: PairedDifference | None
    """From the best configuration on equal seeds; None for the best itself."""
    p: float | None
    """Of the paired t-test, corrected; None if it could not be made."""
    sign_p: float | None
    """Of the sign test, corrected."""

    @property
    def is_among_the_best(self) -> bool:
        """Whether the runs do not show that this differs from the best."""
        return math.isfinite(self.value) and (self.p is None or self.p > SIGNIFICANCE)


@dataclass(frozen=True)
class Ranking:
    """The configurations of a sweep, compared with the best of them."""

    rows: Sequence[RankedRow]
    """In the order of the configurations."""
    best: int | None
    """Index of the best row; None if all values are NaN."""
    tests: int
    """Number of pairs of rows that p is corrected for."""


def rank_configurations(
    configurations: Sequence[Configuration], metric: str, rank_by: str
) -> Ranking:
    """Compare every configuration with the best on equal seeds.

    The best is found with the numbers that it is then tested on. Therefore the p-values are
    corrected for all pairs of configurations, not only for those with the best: the 5% then hold
    whichever of them turns out to be the best.
    """
    values = [ranking_value(c.summary, metric, rank_by) for c in configurations]
    best = index_of_best(values, metric)
    several = [i for i, c in enumerate(configurations) if len(c.by_seed) > 1]
    pairs = {
        (i, j): compare_equal_seeds(configurations[i], configurations[j])
        for i, j in combinations(several, 2)  # one pair of seeds is no test
    }
    p = corrected({pair: found.p for pair, found in pairs.items()})
    sign_p = corrected({pair: found.sign_p for pair, found in pairs.items()})
    rows = []
    for i, (configuration, value) in enumerate(zip(configurations, values, strict=True)):
        if best is None or i == best:
            rows.append(RankedRow(configuration, value, None, None, None))
            continue
        pair = (min(i, best), max(i, best))
        difference = compare_equal_seeds(configuration, configurations[best])
        rows.append(RankedRow(configuration, value, difference, p.get(pair), sign_p.get(pair)))
    return Ranking(rows, best, tests=len(p))


def corrected(p_values: dict[tuple[int, int], float | None]) -> dict[tuple[int, int], float]:
    """Holm's correction for the tests that could be made."""
    made = {pair: p for pair, p in p_values.items() if p is not None}
    return dict(zip(made, holm(list(made.values())), strict=True))


def ranking_value(s: SeedSummary, metric: str, rank_by: str) -> float:
    """The value that configurations are ranked by: mean, median or best of the seeds."""
    if rank_by == "best":
        return s.minimum if lower_is_better(metric) else s.maximum
    return s.median if rank_by == "median" else s.mean


def index_of_best(values: Sequence[float], metric: str) -> int | None:
    """The first of the best values; None if all are NaN."""
    best: int | None = None
    for index, value in enumerate(values):
        if is_improvement(metric, value, None if best is None else values[best]):
            best = index
    return best
