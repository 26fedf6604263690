"""Lines of a plot of learning curves: which configurations and splits have a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toolkit.analysis.curves import Curve, compute_curve, list_metrics
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.plot import CurveConfig
from toolkit.reporting.runs import LoggedRun


class CurveLine(NamedTuple):
    """One configuration on one split."""

    name: str
    subset: str
    curve: Curve
    number: int
    """Index of the line, which sets its style in every panel."""


def collect_lines(
    groups: Mapping[str, Sequence[LoggedRun]],
    metric: str,
    c: CurveConfig,
    runs: Sequence[LoggedRun],
) -> list[CurveLine]:
    """The lines that have the metric; at least one must."""
    keys = [(subset, name) for subset in choose_subsets(groups, c, metric) for name in groups]
    lines = [
        CurveLine(name, subset, compute_curve(groups[name], subset, metric), index)
        for index, (subset, name) in enumerate(keys)
    ]
    drawable = [line for line in lines if line.curve.updates]
    disjoint = [line.name for line in lines if line.curve.runs and not line.curve.updates]
    if not drawable and disjoint:
        raise ToolkitError(
            f"the seeds of {disjoint[0]} have logged {metric!r} at no common update. Name one run "
            f"of each configuration."
        )
    if not drawable:
        raise ToolkitError(
            f"no run has logged {metric!r} of {c.subset or 'valid'}. "
            f"Logged: {', '.join(list_metrics(runs)) or 'nothing'}."
        )
    return drawable


def choose_subsets(
    groups: Mapping[str, Sequence[LoggedRun]], c: CurveConfig, metric: str
) -> list[str]:
    """The selected subset, else valid, and train too for a single configuration."""
    if c.subset:
        return [c.subset]
    trained, validated = (
        max(len(compute_curve(group, subset, metric).updates) for group in groups.values())
        for subset in ("train", "valid")
    )
    if trained and validated < 2:  # a point is no curve
        return ["train"]
    return ["train", "valid"] if len(groups) == 1 else ["valid"]


def to_record(line: CurveLine) -> JsonObject:
    """The line as a JSON record with its subset and name."""
    return {"subset": line.subset, "name": line.name, **line.curve.record()}
