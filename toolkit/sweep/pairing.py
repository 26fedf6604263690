"""Configurations of a sweep with their values by seed, and pairs of equal seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolkit.metrics.paired_tests import PairedDifference, compare_pairs
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.sweep.grid import GridPoint
from toolkit.sweep.outcomes import MetricSource, Outcome, read_metric


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
