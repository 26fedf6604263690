"""Comparison table of a sweep: one row per configuration, over its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
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
    result: Mapping[str, Any]


def load_result(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The result in a folder, if it is that of a complete run of this config."""
    try:
        result = json_files.loads((folder / RESULT_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(result, dict) or result.get("signal") or "config" not in result:
        return None
    before, now = relevant_options(result["config"]), relevant_options(config)
    return result if json_files.dumps(before) == json_files.dumps(now) else None


def read_metric(outcome: Outcome, subset: str, metric: str, validation: str = "last") -> float:
    """A metric of the last or best validation."""
    best = outcome.result.get("best", {})
    never = validation == "best" and best is None  # the deciding metric never was a number
    if validation == "best" and not never and "valid" not in best:
        raise ToolkitError(
            f"--sweep.validation best requires runs that store their best validation, but "
            f"{outcome.point.name} does not. Train it with this version."
        )
    valid = best["valid"] if validation == "best" and not never else outcome.result["valid"]
    figures = valid.get(subset, {})
    if metric not in figures:
        raise ToolkitError(
            f"sweep.metric must be a metric of the validation on {subset}, but is {metric!r}. "
            f"Known: {', '.join(figures) or 'none'}."
        )
    return math.nan if never else float(figures[metric])


def summarize_configurations(
    outcomes: Sequence[Outcome], subset: str, metric: str, validation: str = "last"
) -> list[tuple[Mapping[str, str], SeedSummary]]:
    """Values and summary of each configuration, in order of appearance."""
    found: dict[str, tuple[Mapping[str, str], list[float]]] = {}
    for outcome in outcomes:
        row = found.setdefault(outcome.point.configuration, (outcome.point.values, []))
        row[1].append(read_metric(outcome, subset, metric, validation))
    return [(values, summarize(figures)) for values, figures in found.values()]


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
    found = summarize_configurations(outcomes, subset, metric, validation)
    best: int | None = None
    for index, (values, s) in enumerate(found):
        key = ",".join(f"{k}={v}" for k, v in values.items())
        lost: list[Cell] = [failed.get(key, 0)] if failed else []
        names: list[Cell] = list(values.values()) or ["all seeds"]
        rows.append([*names, *(getattr(s, name) for name in COLUMNS), *lost])
        before = None if best is None else ranking_value(found[best][1], metric, rank_by)
        if is_improvement(metric, ranking_value(s, metric, rank_by), before):
            best = index
    options = list(found[0][0]) or ["runs"]
    return Table(
        columns=[*options, *COLUMNS, *(["failed"] if failed else [])],
        rows=rows,
        best=best if len(found) > 1 else None,
        shared_precision=[name for name in COLUMNS if name != "n"],
        caption=f"{metric} on {subset}" + (", best validation" if validation == "best" else ""),
    )
