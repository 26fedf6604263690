"""Comparison table of a sweep: one row per configuration, over its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.serialize import diff_configs
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.reporting.runs import RESULT_FILE, relevant_options
from toolkit.reporting.tables import Cell, Table
from toolkit.sweep.grid import GridPoint
from toolkit.training.callbacks.validation import is_improvement, lower_is_better

COLUMNS = ("mean", "deviation", "standard_error", "median", "n", "minimum", "maximum")


@dataclass(frozen=True)
class Outcome:
    """A finished run of a sweep with its result.json."""

    point: GridPoint
    result: JsonObject


def load_result(folder: Path, config: JsonObject) -> JsonObject | None:
    """The result in a folder, if it is that of a complete run of this config."""
    try:
        result = json_files.loads((folder / RESULT_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(result, dict) or result.get("signal") or "config" not in result:
        return None
    differ = diff_configs(relevant_options(result["config"]), relevant_options(config))
    return None if differ else result


def read_metric(outcome: Outcome, subset: str, metric: str, validation: str = "last") -> float:
    """A metric of the last or best validation."""
    source = outcome.result.get("best", {}) if validation == "best" else outcome.result
    undefined = source is None  # the metric that decides which validation is best was always NaN
    if undefined:
        source = outcome.result
    if "valid" not in source:
        raise ToolkitError(
            f"--sweep.validation best requires runs that store their best validation, but "
            f"{outcome.point.name} does not. Train it with this version."
        )
    metrics = source["valid"].get(subset, {})
    if metric not in metrics:
        raise ToolkitError(
            f"sweep.metric must be a metric of the validation on {subset}, but is {metric!r}. "
            f"Known: {', '.join(metrics) or 'none'}."
        )
    return math.nan if undefined else float(metrics[metric])


def summarize_configurations(
    outcomes: Sequence[Outcome], subset: str, metric: str, validation: str = "last"
) -> list[tuple[GridPoint, SeedSummary]]:
    """A point and the summary of each configuration, in order of appearance."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point.configuration, []).append(outcome)
    return [
        (group[0].point, summarize([read_metric(o, subset, metric, validation) for o in group]))
        for group in groups.values()
    ]


def ranking_value(s: SeedSummary, metric: str, rank_by: str) -> float:
    """The value that configurations are ranked by: mean, median or best of the seeds."""
    if rank_by == "best":
        return s.minimum if lower_is_better(metric) else s.maximum
    return s.median if rank_by == "median" else s.mean


def comparison_table(
    outcomes: Sequence[Outcome],
    *,
    subset: str,
    metric: str,
    failed: Mapping[str, int],
    validation: str = "last",
    rank_by: str = "mean",
) -> Table:
    """Mean, deviation (n - 1), standard error, median, n, minimum and maximum of each row.

    The best row by `rank_by` is marked if there are several. `failed` counts the runs without
    result of each configuration, in separate columns.
    """
    rows: list[list[Cell]] = []
    best, best_value = None, None
    for point, summary in summarize_configurations(outcomes, subset, metric, validation):
        value = ranking_value(summary, metric, rank_by)
        if is_improvement(metric, value, best_value):
            best, best_value = len(rows), value
        names = list(point.values.values()) or ["all seeds"]
        failures = [failed.get(point.configuration, 0)] if failed else []
        rows.append([*names, *(getattr(summary, name) for name in COLUMNS), *failures])
    options = list(outcomes[0].point.values) or ["runs"]
    return Table(
        columns=[*options, *COLUMNS, *(["failed"] if failed else [])],
        rows=rows,
        best=best if len(rows) > 1 else None,
        shared_precision=[name for name in COLUMNS if name != "n"],
        caption=f"{metric} on {subset}" + (", best validation" if validation == "best" else ""),
    )
