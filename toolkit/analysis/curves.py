"""Learning curves as numbers: summaries over seeds by update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from toolkit.common.json_files import JsonObject
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.reporting.runs import LoggedRun


class Curve(NamedTuple):
    """Summaries over runs at each update."""

    updates: Sequence[int]
    summaries: Sequence[SeedSummary]
    runs: int

    def record(self) -> JsonObject:
        """The curve as JSON; each list has one value per update."""
        statistics = ("mean", "deviation", "minimum", "maximum")
        lists = {name: [getattr(s, name) for s in self.summaries] for name in statistics}
        return {"runs": self.runs, "updates": list(self.updates), **lists}


def compute_curve(runs: Sequence[LoggedRun], subset: str, metric: str) -> Curve:
    """Summaries at the updates that all runs reported."""
    by_run = [values for run in runs if (values := metric_by_update(run, subset, metric))]
    updates = sorted(set.intersection(*map(set, by_run))) if by_run else []
    summaries = [summarize([values[update] for values in by_run]) for update in updates]
    return Curve(updates, summaries, len(by_run))


def metric_by_update(run: LoggedRun, subset: str, metric: str) -> dict[int, float]:
    """Update -> value, of training or of the validations on a split."""
    return {
        record["update"]: float(record[metric])
        for record in run.records
        if record_subset(record) == subset and is_finite_number(record.get(metric))
    }


def is_finite_number(value: object) -> bool:
    """Whether a JSON value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def record_subset(record: JsonObject) -> str | None:
    """ "train", or the split of a validation; None for other events."""
    event = record.get("event")
    return "train" if event == "train" else record.get("subset") if event == "valid" else None


def list_metrics(runs: Sequence[LoggedRun]) -> list[str]:
    """`subset/metric` of everything that can be drawn."""
    return sorted(
        {
            f"{record_subset(record)}/{name}"
            for run in runs
            for record in run.records
            if record_subset(record)
            for name, value in record.items()
            if isinstance(value, int | float) and name not in ("update", "epoch")
        }
    )


def smooth(values: Sequence[float], weight: float) -> list[float]:
    """sum_k w^k x_{n-k} / sum_k w^k, an unbiased exponential moving average."""
    averages, total, norm = [], 0.0, 0.0
    for value in values:
        total, norm = weight * total + value, weight * norm + 1
        averages.append(total / norm)
    return averages


def band_edges(curve: Curve, band: str, factor: float = 1.0) -> tuple[list[float], list[float]]:
    """Lower and upper edge, times a factor; equal without a band."""
    if band == "range":
        pairs = [(s.minimum, s.maximum) for s in curve.summaries]
    else:
        width = 1.0 if band == "deviation" else 0.0
        deviations = [width * (s.deviation or 0.0) for s in curve.summaries]
        means = [s.mean for s in curve.summaries]
        pairs = [(m - d, m + d) for m, d in zip(means, deviations, strict=True)]
    return [factor * lower for lower, _ in pairs], [factor * upper for _, upper in pairs]
