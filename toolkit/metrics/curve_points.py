"""What a learning curve shows: the figures of runs over their updates, mean and spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.metrics.runs import Run
from toolkit.metrics.summary import Summary, summary


class Curve(NamedTuple):
    updates: Sequence[int]
    figures: Sequence[Summary]
    runs: int

    def record(self) -> dict[str, Any]:
        """As JSON: a number for each update in every list."""
        return {
            "runs": self.runs,
            "updates": list(self.updates),
            "mean": [figure.mean for figure in self.figures],
            "deviation": [figure.deviation for figure in self.figures],
            "minimum": [figure.minimum for figure in self.figures],
            "maximum": [figure.maximum for figure in self.figures],
        }


def curve_of(runs: Sequence[Run], subset: str, metric: str) -> Curve:
    """The figure at each update that every one of the runs reported."""
    by_run = [points(run, subset, metric) for run in runs]
    by_run = [figures for figures in by_run if figures]
    common = sorted(set.intersection(*map(set, by_run))) if by_run else []
    return Curve(common, [summary([f[u] for f in by_run]) for u in common], len(by_run))


def points(run: Run, subset: str, metric: str) -> dict[int, float]:
    """Update -> figure, of the training log or of the validations on a split."""
    return {
        record["update"]: float(record[metric])
        for record in run.records
        if place(record) == subset and is_finite(record.get(metric))
    }


def is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def place(record: Mapping[str, Any]) -> str | None:
    """train, or the split of a validation; None for other events."""
    event = record.get("event")
    return "train" if event == "train" else record.get("subset") if event == "valid" else None


def logged(runs: Sequence[Run]) -> list[str]:
    """subset/figure of all that there is to draw."""
    return sorted(
        {
            f"{place(record)}/{name}"
            for run in runs
            for record in run.records
            if place(record)
            for name, value in record.items()
            if isinstance(value, int | float) and name not in ("update", "epoch")
        }
    )


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """sum_k w^k x_{n-k} / sum_k w^k, an exponential mean that does not lean on its first value."""
    found, total, share = [], 0.0, 0.0
    for value in values:
        total, share = weight * total + value, weight * share + 1
        found.append(total / share)
    return found


def edges(found: Curve, band: str) -> tuple[list[float], list[float]]:
    """Below and above; equal where there is no band."""
    figures = found.figures
    if band == "range":
        return [f.minimum for f in figures], [f.maximum for f in figures]
    spread = [f.deviation or 0.0 if band == "deviation" else 0.0 for f in figures]
    pairs = list(zip(figures, spread, strict=True))
    return [f.mean - s for f, s in pairs], [f.mean + s for f, s in pairs]
