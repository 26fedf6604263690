"""Plots of learning curves: mean over seeds with a band, one panel per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.analysis.plots.style import line_style, new_figure, save_figure
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs


class Curve(NamedTuple):
    updates: Sequence[int]
    summaries: Sequence[SeedSummary]
    runs: int

    def record(self) -> dict[str, Any]:
        """The curve as JSON; each list has one value per update."""
        return {
            "runs": self.runs,
            "updates": list(self.updates),
            "mean": [figure.mean for figure in self.summaries],
            "deviation": [figure.deviation for figure in self.summaries],
            "minimum": [figure.minimum for figure in self.summaries],
            "maximum": [figure.maximum for figure in self.summaries],
        }


def compute_curve(runs: Sequence[LoggedRun], subset: str, metric: str) -> Curve:
    """Summaries at the updates that all runs reported."""
    by_run = [metric_by_update(run, subset, metric) for run in runs]
    by_run = [figures for figures in by_run if figures]
    common = sorted(set.intersection(*map(set, by_run))) if by_run else []
    return Curve(common, [summarize([f[u] for f in by_run]) for u in common], len(by_run))


def metric_by_update(run: LoggedRun, subset: str, metric: str) -> dict[int, float]:
    """Update -> value, of training or of the validations on a split."""
    return {
        record["update"]: float(record[metric])
        for record in run.records
        if record_subset(record) == subset and is_finite_number(record.get(metric))
    }


def is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def record_subset(record: Mapping[str, Any]) -> str | None:
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
    found, total, share = [], 0.0, 0.0
    for value in values:
        total, share = weight * total + value, weight * share + 1
        found.append(total / share)
    return found


def band_edges(found: Curve, band: str) -> tuple[list[float], list[float]]:
    """Lower and upper edge; equal without a band."""
    figures = found.summaries
    if band == "range":
        return [f.minimum for f in figures], [f.maximum for f in figures]
    spread = [f.deviation or 0.0 if band == "deviation" else 0.0 for f in figures]
    pairs = list(zip(figures, spread, strict=True))
    return [f.mean - s for f, s in pairs], [f.mean + s for f, s in pairs]


MARKED_POINTS = 25  # more would hide the line
PANEL_WIDTH, HEIGHT = 5.6, 4.2  # inches
LETTER_INCHES = 0.075  # inches
MAX_LINES_ABOVE = 3  # more lines have their legend beside the panels


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
    names = {line.number: legend_label(line, groups) for lines in panels.values() for line in lines}
    beside = len(names) > MAX_LINES_ABOVE
    width = PANEL_WIDTH * len(panels) + beside * (
        LETTER_INCHES * max(map(len, names.values())) + 0.6
    )
    figure = new_figure(width, HEIGHT)
    figure.suptitle(c.title, x=0.01, ha="left")  # a legend may have the right corner
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (metric, lines) in zip(every, panels.items(), strict=True):
        for line in lines:
            draw_line(axes, line, names[line.number], c)
            if output:
                output.write("curve", {"metric": metric, **to_record(line)})
        format_axes(axes, c, axis_label(metric, lines))
    add_legend(figure, names, beside=beside)
    save_figure(figure, c.output_file)


def collect_lines(
    groups: Mapping[str, Sequence[LoggedRun]],
    metric: str,
    c: CurveConfig,
    runs: Sequence[LoggedRun],
) -> list[CurveLine]:
    """The lines that have the metric; at least one must."""
    keys = [(subset, name) for subset in choose_subsets(groups, c, metric) for name in groups]
    found = [
        CurveLine(name, subset, compute_curve(groups[name], subset, metric), index)
        for index, (subset, name) in enumerate(keys)
    ]
    apart = [line.name for line in found if line.curve.runs and not line.curve.updates]
    found = [line for line in found if line.curve.updates]
    if not found and apart:
        raise ToolkitError(
            f"the seeds of {apart[0]} have logged {metric!r} at no common update. Name one run of "
            f"each configuration."
        )
    if not found:
        raise ToolkitError(
            f"no run has logged {metric!r} of {c.subset or 'valid'}. "
            f"Logged: {', '.join(list_metrics(runs)) or 'nothing'}."
        )
    return found


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


def to_record(line: CurveLine) -> dict[str, Any]:
    return {"subset": line.subset, "name": line.name, **line.curve.record()}


def axis_label(metric: str, lines: Sequence[CurveLine]) -> str:
    """Label of the y-axis."""
    shown = {line.subset for line in lines}
    return f"{metric} on {shown.pop()}" if len(shown) == 1 else metric


def draw_line(axes: Any, line: CurveLine, name: str, c: CurveConfig) -> None:
    """Draw a line and its band; a smoothed line keeps the raw one, faded."""
    found, look = line.curve, line_style(line.number)
    means = [figure.mean for figure in found.summaries]
    marker = "o" if len(means) <= MARKED_POINTS else ""
    weight = c.smoothing if line.subset == "train" else 0.0  # validations have no noise to speak of
    if weight:
        axes.plot(found.updates, means, color=look["color"], alpha=0.3, linewidth=0.8)
    shown = smooth(means, weight)
    axes.plot(found.updates, shown, label=name, marker=marker, markersize=3, **look)
    below, above = (smooth(edge, weight) for edge in band_edges(found, c.band))
    if below != above:
        axes.fill_between(found.updates, below, above, color=look["color"], alpha=0.2, linewidth=0)


def add_legend(figure: Any, names: Mapping[int, str], *, beside: bool) -> None:
    """One legend outside the panels, in the order in which the lines end."""
    found = {h.get_label(): h for axes in figure.axes for h in axes.get_lines()}
    lines = [found[name] for name in names.values()]
    lines.sort(key=lambda line: line.get_ydata()[-1], reverse=True)
    place = "outside right upper" if beside else "outside upper center"
    columns = 1 if beside else len(lines)
    figure.legend(lines, [h.get_label() for h in lines], loc=place, ncols=columns, frameon=False)


def format_axes(axes: Any, c: CurveConfig, what: str) -> None:
    """Format axes, scales and grid."""
    axes.set_xlabel("update")
    axes.set_ylabel(what)
    if c.log_updates:
        axes.set_xscale("log")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if c.log_scale:
        axes.set_yscale("log")
    for axis, logarithmic in ((axes.xaxis, c.log_updates), (axes.yaxis, c.log_scale)):
        if logarithmic:
            use_plain_numbers(axis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)


def use_plain_numbers(axis: Any) -> None:
    """Label logarithmic axes with plain numbers, between powers of ten too."""
    from matplotlib.ticker import LogFormatter, LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(0, 0)))
