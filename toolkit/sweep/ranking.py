"""Results of finished runs, their configurations, and which of these is the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TypedDict

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, Number, convert, read_json
from toolkit.config.serialize import diff_configs
from toolkit.metrics.seeds import PairedDifference, SeedSummary, compare_pairs, holm, summarize
from toolkit.reporting.runs import RESULT_FILE, relevant_options
from toolkit.sweep.grid import GridPoint
from toolkit.training.callbacks.validation import is_improvement, lower_is_better


class ResultConfig(TypedDict):
    """What every result.json has."""

    config: dict[str, JsonObject]


class SavedMetrics(TypedDict, total=False):
    """Metrics of the last or the best validation."""

    valid: dict[str, dict[str, Number]]


class SavedResult(SavedMetrics, ResultConfig, total=False):
    """What is read of a result.json."""

    updates: Count
    seconds: float
    train: dict[str, Number]
    best: SavedMetrics | None
    parameters: Count
    flops_per_token: float | None


@dataclass(frozen=True)
class Outcome:
    """A finished run of a sweep with its result.json."""

    point: GridPoint
    result: JsonObject


@dataclass(frozen=True, kw_only=True)
class MetricSource:
    """Which number of a result is compared."""

    subset: str
    """Validation split."""
    metric: str
    validation: str = "last"
    """The "last" validation, or the "best"."""

    def __str__(self) -> str:
        best = ", best validation" if self.validation == "best" else ""
        return f"{self.metric} on {self.subset}{best}"


def load_result(folder: Path, config: JsonObject) -> JsonObject | None:
    """The result in a folder, if it is that of a complete run of this config."""
    try:
        result = read_json(folder / RESULT_FILE, JsonObject, "", non_finite=True)
        convert(result, SavedResult)
    except ToolkitError:
        return None
    if result.get("signal"):
        return None
    differ = diff_configs(relevant_options(result["config"]), relevant_options(config))
    return None if differ else result


def read_metric(outcome: Outcome, source: MetricSource) -> float:
    """The metric of a run; NaN if that which decides on the best validation was always NaN."""
    found = outcome.result["best"] if source.validation == "best" else outcome.result
    undefined = found is None
    if undefined:
        found = outcome.result
    metrics = found["valid"].get(source.subset, {})
    if source.metric not in metrics:
        raise ToolkitError(
            f"sweep.metric must be a metric of the validation on {source.subset}, but is "
            f"{source.metric!r}. Known: {', '.join(metrics) or 'none'}."
        )
    return math.nan if undefined else float(metrics[source.metric])


@dataclass(frozen=True)
class Configuration:
    """The runs that differ only in their seed."""

    outcomes: Sequence[Outcome]
    by_seed: Mapping[int | None, float]
    """Seed -> metric; the only seed is None if the sweep does not vary it."""

    @property
    def point(self) -> GridPoint:
        return self.outcomes[0].point

    @property
    def out_of_time(self) -> int:
        """Number of runs that a time limit ended."""
        return sum(bool(outcome.result.get("out_of_time")) for outcome in self.outcomes)

    @cached_property
    def summary(self) -> SeedSummary:
        return summarize([self.by_seed[seed] for seed in sorted(self.by_seed, key=seed_order)])


def group_by_configuration(
    outcomes: Sequence[Outcome], source: MetricSource
) -> list[Configuration]:
    """One configuration for all runs of equal options, in order of appearance."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point.configuration, []).append(outcome)
    return [
        Configuration(group, {o.point.seed: read_metric(o, source) for o in group})
        for group in groups.values()
    ]


def compare_equal_seeds(a: Configuration, b: Configuration) -> PairedDifference:
    """The difference a - b over the seeds that both have."""
    seeds = sorted(a.by_seed.keys() & b.by_seed.keys(), key=seed_order)
    return compare_pairs([a.by_seed[s] for s in seeds], [b.by_seed[s] for s in seeds])


def seed_order(seed: int | None) -> int:
    """Sort key of a seed; None comes first."""
    return -1 if seed is None else seed


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
