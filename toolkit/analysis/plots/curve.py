"""Plots of learning curves: mean over seeds with a band, one panel per metric."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from toolkit.analysis.curves import band_edges, smooth
from toolkit.analysis.plots.curve_legend import add_legend, make_legend
from toolkit.analysis.plots.curve_lines import CurveLine, collect_lines, to_record
from toolkit.analysis.plots.labels import MetricLabel, label_metric, label_subset, parse_labels
from toolkit.analysis.plots.style import (
    Axes,
    Axis,
    Figure,
    hide_box,
    line_style,
    marked_points,
    new_plot,
    plot_style,
    save_plot,
)
from toolkit.config.commands.plot import CurveConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.3  # inches
SINGLE_WIDTH, SINGLE_HEIGHT = 4.8, 3.0  # of a plot with one panel
MIN_PANEL_WIDTH, MAX_COLUMNS = 2.0, 3
LABEL_LETTERS = 25  # per line of a y label


def plot_curves(c: CurveConfig) -> None:
    """Plot the learning curves of runs."""
    with Output(c.json) as output:
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
