"""Plots of learning curves: mean over seeds with a band, one panel per metric."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from toolkit.analysis.plot_style import (
    Axes,
    Axis,
    Figure,
    MetricLabel,
    hide_box,
    label_metric,
    label_subset,
    label_variants,
    line_style,
    marked_points,
    new_plot,
    open_plot,
    parse_labels,
    plot_style,
    save_plot,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seeds import SeedSummary, summarize
from toolkit.reporting.console import Output
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.3  # inches
SINGLE_WIDTH, SINGLE_HEIGHT = 4.8, 3.0  # of a plot with one panel
MIN_PANEL_WIDTH, MAX_COLUMNS = 2.0, 3
LABEL_LETTERS = 25  # per line of a y label


def plot_curves(c: CurveConfig) -> None:
    """Plot the learning curves of runs."""
    with open_plot(c) as output:
        draw_curves(read_runs(c.runs), c, output)
        print(c.output_file, file=output.text_stream)


def draw_curves(runs: Sequence[LoggedRun], c: CurveConfig, output: Output | None = None) -> None:
    """Plot runs grouped by configuration."""
    groups = group_runs(runs)
    panels = {metric: collect_lines(groups, metric, c, runs) for metric in c.metric}
    lines = list({line.number: line for it in panels.values() for line in it}.values())
    names = [line.subset if len(groups) == 1 else line.name for line in lines]
    given = parse_labels(c.labels, [*names, *c.metric])
    with plot_style(c):
        fig, axes = new_panels(len(panels), c)
        for ax, (metric, drawn) in zip(axes, panels.items(), strict=True):
            label = label_metric(metric)
            for line in drawn:
                draw_line(ax, line, c, label.factor)
                if output:
                    output.write("curve", {"metric": metric, **to_record(line)})
            format_axes(ax, c, given.get(metric) or axis_label(label, drawn))
        add_legend(fig, make_legend(lines, names, given, c), c)
        if c.title:
            fig.suptitle(c.title)
        save_plot(fig, c)


def new_panels(count: int, c: CurveConfig) -> tuple[Figure, list[Axes]]:
    """A plot with this many panels, wrapped into rows that fit the width."""
    fitting = max(1, int(c.inches[0] / MIN_PANEL_WIDTH)) if c.inches else MAX_COLUMNS
    rows = math.ceil(count / min(count, fitting))
    columns = math.ceil(count / rows)
    width, height = PANEL_WIDTH * columns, PANEL_HEIGHT * rows
    if count == 1:
        width, height = SINGLE_WIDTH, SINGLE_HEIGHT
    if c.inches:  # narrow panels are a bit lower
        width = c.inches[0]
        height = c.inches[1] or min(1.0, max(0.75, width / columns / PANEL_WIDTH)) * height
    fig = new_plot(width, height)
    axes: Any = fig.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[count:]:
        ax.remove()
    return fig, list(axes.flat[:count])


def axis_label(label: MetricLabel, lines: Sequence[CurveLine]) -> str:
    """Label of the y-axis, with the split if all lines are of one."""
    subsets = {line.subset for line in lines}
    split = f"{label_subset(subsets.pop())} " if len(subsets) == 1 else ""
    return textwrap.fill(split + label.text, LABEL_LETTERS)


def draw_line(ax: Axes, line: CurveLine, c: CurveConfig, factor: float = 1.0) -> None:
    """Draw a line and its band; a smoothed line keeps the raw one, faded."""
    curve, style = line.curve, line_style(line.number)
    means = [factor * summary.mean for summary in curve.summaries]
    weight = c.smoothing if line.subset == "train" else 0.0  # validations have little noise
    if weight:
        ax.plot(curve.updates, means, color=style.color, alpha=0.3, linewidth=0.7)
    ax.plot(
        curve.updates,
        smooth(means, weight),
        label=str(line.number),
        marker=style.marker,
        markevery=marked_points(len(means), line.number),
        markersize=3.5,
        color=style.color,
        linestyle=style.linestyle,
        linewidth=1.2,
    )
    lower, upper = (smooth(edge, weight) for edge in band_edges(curve, c.band, factor))
    if lower != upper:
        ax.fill_between(curve.updates, lower, upper, color=style.color, alpha=0.15, linewidth=0)


def format_axes(ax: Axes, c: CurveConfig, ylabel: str) -> None:
    """Format axes, scales and grid."""
    ax.set_xlabel("updates")
    ax.set_ylabel(ylabel)
    if c.log_updates:
        ax.set_xscale("log")
        use_plain_numbers(ax.xaxis)
    else:
        ax.locator_params("x", integer=True, nbins=6)
        ax.xaxis.set_major_formatter("{x:,.0f}")
    if c.log_scale:
        ax.set_yscale("log")
        use_plain_numbers(ax.yaxis)
    hide_box(ax)
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.margins(x=0.03)


def use_plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers, between powers of ten too."""
    from matplotlib.ticker import LogFormatter, LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(0, 0)))


LETTER = 0.5 / 72  # average width of a letter in inches, for each point of the font size
LINE = 1.5 / 72  # height of a line of the legend in inches, for each point
LEGEND_KEY_LETTERS = 8  # width of a line of the legend, in letters
BANDS = {"deviation": "mean ± standard deviation", "range": "mean, minimum and maximum"}


class Legend(NamedTuple):
    """The labels of the lines, and a title for all of them."""

    labels: Mapping[int, str]
    """Number of a line -> its label."""
    title: str


def make_legend(
    lines: Sequence[CurveLine], names: Sequence[str], given: Mapping[str, str], c: CurveConfig
) -> Legend:
    """Names in words; the number of seeds once if it is the same for all."""
    words, option = label_variants([label_subset(name) for name in names])
    texts = [given.get(name, words[label_subset(name)]) for name in names]
    seeds = {line.curve.runs for line in lines}
    if len(seeds) > 1:
        texts = [
            f"{text} ({line.curve.runs} seed{'s' * (line.curve.runs > 1)})"
            for text, line in zip(texts, lines, strict=True)
        ]
    title = [option] if option and not given else []
    if max(seeds) > 1:
        of_seeds = f"{seeds.pop()} seeds" if len(seeds) == 1 else "seeds"
        title.append(f"{BANDS.get(c.band, 'mean')} of {of_seeds}")
    return Legend(
        {line.number: text for line, text in zip(lines, texts, strict=True)}, "; ".join(title)
    )


def add_legend(fig: Figure, legend: Legend, c: CurveConfig) -> None:
    """One legend below the panels, in the order in which the lines end."""
    handles = {h.get_label(): h for ax in fig.axes for h in ax.get_lines()}
    numbers = sorted(
        legend.labels,
        key=lambda number: float(np.asarray(handles[str(number)].get_ydata())[-1]),
        reverse=True,
    )
    letters = max(map(len, legend.labels.values())) + LEGEND_KEY_LETTERS
    fitting = max(1, int(fig.get_figwidth() / (LETTER * c.font_size * letters)))
    rows = math.ceil(len(numbers) / fitting) + bool(legend.title)
    if not (c.inches and c.inches[1]):
        fig.set_figheight(fig.get_figheight() + rows * LINE * c.font_size)
    fig.legend(
        [handles[str(number)] for number in numbers],
        [legend.labels[number] for number in numbers],
        loc="outside lower center",
        ncols=min(len(numbers), fitting),
        frameon=False,
        title=legend.title or None,
        title_fontsize="small",
        handlelength=3.2,
    )


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
