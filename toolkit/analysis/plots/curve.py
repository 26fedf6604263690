"""Plots of learning curves: mean over seeds with a band, one panel per metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from toolkit.analysis.plots.style import (
    Axes,
    Axis,
    Figure,
    hide_box,
    line_style,
    new_plot,
    save_plot,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs


class Curve(NamedTuple):
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


def band_edges(curve: Curve, band: str) -> tuple[list[float], list[float]]:
    """Lower and upper edge; equal without a band."""
    if band == "range":
        return [s.minimum for s in curve.summaries], [s.maximum for s in curve.summaries]
    pairs = [(s.mean, s.deviation or 0.0) for s in curve.summaries]
    width = 1.0 if band == "deviation" else 0.0
    return [m - width * d for m, d in pairs], [m + width * d for m, d in pairs]


MARKED_POINTS = 25  # more would hide the line
PANEL_WIDTH, HEIGHT = 5.6, 4.2  # inches
LETTER_INCHES = 0.075  # average width of a letter of the legend
MAX_LINES_ABOVE = 3  # the legend of more lines is to the right of the panels


class CurveLine(NamedTuple):
    """One configuration on one split."""

    name: str
    subset: str
    curve: Curve
    number: int
    """Index of the line, which sets its style in every panel."""


def plot_curves(c: CurveConfig) -> None:
    """Plot the learning curves of runs."""
    with Output(c.json) as output:
        draw_curves(read_runs(c.runs), c, output)
        print(c.output_file, file=output.text_stream)


def draw_curves(runs: Sequence[LoggedRun], c: CurveConfig, output: Output | None = None) -> None:
    """Plot runs grouped by configuration."""
    groups = group_runs(runs)
    panels = {metric: collect_lines(groups, metric, c, runs) for metric in c.metric}
    labels = {
        line.number: legend_label(line, groups) for lines in panels.values() for line in lines
    }
    right = len(labels) > MAX_LINES_ABOVE
    legend_width = LETTER_INCHES * max(map(len, labels.values())) + 0.6
    fig = new_plot(PANEL_WIDTH * len(panels) + right * legend_width, HEIGHT)
    fig.suptitle(c.title, x=0.01, ha="left")  # a legend may have the right corner
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, (metric, lines) in zip(axes, panels.items(), strict=True):
        for line in lines:
            draw_line(ax, line, labels[line.number], c)
            if output:
                output.write("curve", {"metric": metric, **to_record(line)})
        format_axes(ax, c, axis_label(metric, lines))
    add_legend(fig, labels.values(), right=right)
    save_plot(fig, c.output_file)


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


def legend_label(line: CurveLine, groups: Mapping[str, Sequence[LoggedRun]]) -> str:
    seeds = f" ({line.curve.runs} seeds)" if line.curve.runs > 1 else ""
    return (line.subset if len(groups) == 1 else line.name) + seeds


def to_record(line: CurveLine) -> JsonObject:
    return {"subset": line.subset, "name": line.name, **line.curve.record()}


def axis_label(metric: str, lines: Sequence[CurveLine]) -> str:
    """Label of the y-axis."""
    subsets = {line.subset for line in lines}
    return f"{metric} on {subsets.pop()}" if len(subsets) == 1 else metric


def draw_line(ax: Axes, line: CurveLine, label: str, c: CurveConfig) -> None:
    """Draw a line and its band; a smoothed line keeps the raw one, faded."""
    curve, (color, style) = line.curve, line_style(line.number)
    means = [summary.mean for summary in curve.summaries]
    marker = "o" if len(means) <= MARKED_POINTS else ""
    weight = c.smoothing if line.subset == "train" else 0.0  # validations have little noise
    if weight:
        ax.plot(curve.updates, means, color=color, alpha=0.3, linewidth=0.8)
    ax.plot(
        curve.updates,
        smooth(means, weight),
        label=label,
        marker=marker,
        markersize=3,
        color=color,
        linestyle=style,
    )
    lower, upper = (smooth(edge, weight) for edge in band_edges(curve, c.band))
    if lower != upper:
        ax.fill_between(curve.updates, lower, upper, color=color, alpha=0.2, linewidth=0)


def add_legend(fig: Figure, labels: Iterable[str], *, right: bool) -> None:
    """One legend outside the panels, in the order in which the lines end."""
    handles = {h.get_label(): h for ax in fig.axes for h in ax.get_lines()}
    lines = [handles[label] for label in labels]
    lines.sort(key=lambda line: float(np.asarray(line.get_ydata())[-1]), reverse=True)
    fig.legend(
        lines,
        [str(line.get_label()) for line in lines],
        loc="outside right upper" if right else "outside upper center",
        ncols=1 if right else len(lines),
        frameon=False,
    )


def format_axes(ax: Axes, c: CurveConfig, ylabel: str) -> None:
    """Format axes, scales and grid."""
    ax.set_xlabel("update")
    ax.set_ylabel(ylabel)
    if c.log_updates:
        ax.set_xscale("log")
        use_plain_numbers(ax.xaxis)
    else:
        ax.locator_params("x", integer=True)
    if c.log_scale:
        ax.set_yscale("log")
        use_plain_numbers(ax.yaxis)
    hide_box(ax)
    ax.grid(color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.margins(x=0.02)


def use_plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers, between powers of ten too."""
    from matplotlib.ticker import LogFormatter, LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(0, 0)))
