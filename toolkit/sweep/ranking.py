"""Points of a sweep: every combination of values, listed or drawn, with every seed.

The results of their runs tell which combination is the best.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import loguniform

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, Number, convert, read_json, sha256
from toolkit.config.commands.train import SweepConfig, ValueRange
from toolkit.config.serialize import diff_configs
from toolkit.metrics.seeds import PairedDifference, SeedSummary, compare_pairs, holm, summarize
from toolkit.reporting.runs import RESULT_FILE, relevant_options
from toolkit.training.callbacks.validation import is_improvement, lower_is_better

METRICS: Any = dict[str, dict[str, Number]] | None
RESULT: dict[str, Any] = {
    **{"config": dict[str, JsonObject] | None, "updates": Count | None, "seconds": float | None},
    **{"train": dict[str, Number] | None, "valid": METRICS, "parameters": Count | None},
    **{"best": JsonObject | None, "flops_per_token": float | None},
}
"""What is read of a result.json -> its type."""


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
        for name, kind in RESULT.items():
            convert(result.get(name), kind)
        convert((result.get("best") or {}).get("valid"), METRICS)
    except ValueError:  # no such file, or another one
        return None
    if result.get("signal"):
        return None
    differ = diff_configs(relevant_options(result.get("config", {})), relevant_options(config))
    return None if differ else result


@dataclass(frozen=True)
class Configuration:
    """The runs that differ only in their seed, next to those of the best configuration."""

    outcomes: Sequence[Outcome]
    by_seed: Mapping[int | None, float]
    """Seed -> metric; the only seed is None if the sweep does not vary it."""
    value: float = math.nan
    """What the configurations are ranked by."""
    difference: PairedDifference | None = None
    """From the best configuration on equal seeds; None for the best itself."""
    p: float | None = None
    """Of the paired t-test, corrected; None if it could not be made."""
    sign_p: float | None = None
    """Of the sign test, corrected."""

    @property
    def point(self) -> GridPoint:
        return self.outcomes[0].point

    @cached_property
    def summary(self) -> SeedSummary:
        return summarize(list(self.by_seed.values()))


def group_by_configuration(
    outcomes: Sequence[Outcome], source: MetricSource
) -> list[Configuration]:
    """One configuration for all runs of equal options, in order of appearance.

    A run without the metric has NaN; that none has it is an error.
    """
    known = dict.fromkeys(
        name for _, result in outcomes for name in result["valid"].get(source.subset, {})
    )
    if source.metric not in known:
        raise ToolkitError(
            f"sweep.metric must be a metric of the validation on {source.subset}, but is "
            f"{source.metric!r}. Known: {', '.join(known) or 'none'}."
        )
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point.configuration, []).append(outcome)
    configurations = []
    for group in groups.values():
        group.sort(key=lambda outcome: outcome.point.seed or 0)  # the only seed may be None
        by_seed: dict[int | None, float] = {}
        for point, result in group:
            # best is None if the metric that decides on it was always NaN
            found = result["best"] if source.validation == "best" else result
            metrics = found["valid"].get(source.subset, {}) if found else {}
            by_seed[point.seed] = float(metrics.get(source.metric, math.nan))
        configurations.append(Configuration(group, by_seed))
    return configurations


def compare_equal_seeds(a: Configuration, b: Configuration) -> PairedDifference:
    """The difference a - b over the seeds that both have."""
    seeds = [seed for seed in a.by_seed if seed in b.by_seed]
    return compare_pairs([a.by_seed[s] for s in seeds], [b.by_seed[s] for s in seeds])


SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Comparison:
    """The configurations of a sweep, compared with the best of them."""

    rows: Sequence[Configuration]
    best: int | None
    """Index of the best row; None if all values are NaN."""
    tests: int
    """Number of pairs of rows that p is corrected for."""


def rank_configurations(
    configurations: Sequence[Configuration], metric: str, rank_by: str
) -> Comparison:
    """Compare every configuration with the best on equal seeds.

    The best is found with the numbers that it is then tested on. Therefore the p-values are
    corrected for all pairs of configurations, not only for those with the best: the 5% then hold
    whichever of them turns out to be the best.
    """
    statistic = {"mean": "mean", "median": "median"}.get(rank_by, "")
    extreme = statistic or ("minimum" if lower_is_better(metric) else "maximum")
    values = [float(getattr(c.summary, extreme)) for c in configurations]
    best = index_of_best(values, metric)
    several = [i for i, c in enumerate(configurations) if len(c.by_seed) > 1]
    pairs = {
        (i, j): compare_equal_seeds(configurations[i], configurations[j])
        for i, j in combinations(several, 2)  # one pair of seeds is no test
    }
    p = corrected({pair: found.p for pair, found in pairs.items()})
    sign_p = corrected({pair: found.sign_p for pair, found in pairs.items()})
    rows = [replace(it, value=x) for it, x in zip(configurations, values, strict=True)]
    for i, row in enumerate(rows):
        if best is not None and i != best:
            pair, difference = (min(i, best), max(i, best)), compare_equal_seeds(row, rows[best])
            rows[i] = replace(row, difference=difference, p=p.get(pair), sign_p=sign_p.get(pair))
    return Comparison(rows, best, tests=len(p))


def corrected(p_values: dict[tuple[int, int], float | None]) -> dict[tuple[int, int], float]:
    """Holm's correction for the tests that could be made."""
    made = {pair: p for pair, p in p_values.items() if p is not None}
    return dict(zip(made, holm(list(made.values())), strict=True))


def index_of_best(values: Sequence[float], metric: str) -> int | None:
    """The first of the best values; None if all are NaN."""
    best: int | None = None
    for index, value in enumerate(values):
        if is_improvement(metric, value, None if best is None else values[best]):
            best = index
    return best


MAX_NAME_LENGTH = 150  # file systems take 255 bytes


@dataclass(frozen=True)
class GridPoint:
    """A configuration of a sweep, with one of its seeds."""

    values: Mapping[str, str]
    """Option -> value, as text."""
    seed: int | None
    """None if the sweep does not vary the seed."""

    @property
    def configuration(self) -> str:
        """Label shared by all seeds: `arch.fixed=true,lr=1e-4`; empty without a grid."""
        return ",".join(f"{key}={value}" for key, value in self.values.items())

    @property
    def name(self) -> str:
        """Name of its folder: `arch.fixed=true,seed=1`; a long one ends in a digest."""
        seed = [] if self.seed is None else [f"seed={self.seed}"]
        text = ",".join([*filter(None, [self.configuration]), *seed])
        safe = re.sub(r"[^A-Za-z0-9._=+,-]", "_", text)
        long = len(safe) > MAX_NAME_LENGTH
        return f"{safe[:MAX_NAME_LENGTH]}~{sha256(text)[:8]}" if long else safe


class Outcome(NamedTuple):
    """A finished run of a sweep with its result.json."""

    point: GridPoint
    result: JsonObject


def grid_points(c: SweepConfig) -> list[GridPoint]:
    """All combinations of listed values and drawn trials; the seed varies fastest."""
    ranges, seeds = c.ranges(), list[int | None](c.seeds) or [None]
    listed = {option: values for option, values in c.parse_grid().items() if option not in ranges}
    trials = draw_trials(ranges, c.trials) if ranges else [{}]
    points = [
        GridPoint({**dict(zip(listed, values, strict=True)), **trial}, seed)
        for values in product(*listed.values())
        for trial in trials
        for seed in seeds
    ]
    [(name, count)] = Counter(point.name for point in points).most_common(1)
    if count > 1:
        raise ToolkitError(
            f"values of sweep.grid must give different folder names (letters, digits, .+-=), but "
            f"{count} runs have the name {name!r}."
        )
    return points


def draw_trials(ranges: Mapping[str, ValueRange], trials: int) -> list[dict[str, str]]:
    """Option -> value, as text, of each trial; draws that are equal count once.

    Values are log-uniform: numbers with four significant digits, or whole ones. The draws of an
    option depend on its name and range alone: more trials continue the list.
    """
    drawn = []
    for option, values in ranges.items():
        generator = np.random.default_rng(int(sha256(option)[:16], 16))
        margin = 0.5 if values.whole else 0.0
        numbers = loguniform.rvs(
            values.low - margin, values.high + margin, size=trials, random_state=generator
        )
        rounded = [round(x) if values.whole else float(f"{x:.4g}") for x in numbers]
        drawn.append([f"{min(max(x, values.low), values.high):.12g}" for x in rounded])
    combinations = dict.fromkeys(zip(*drawn, strict=True))
    return [dict(zip(ranges, texts, strict=True)) for texts in combinations]
