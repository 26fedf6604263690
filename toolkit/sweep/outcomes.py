"""Results of finished runs, read from their folders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, Number, convert, read_json
from toolkit.config.serialize import diff_configs
from toolkit.reporting.runs import RESULT_FILE, relevant_options
from toolkit.sweep.grid import GridPoint


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
