"""Plots of accuracies on minimal pairs: a panel for each phenomenon, a row for each model."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.analysis.plot_style import Axes, Figure, hide_box, line_style, new_plot
from toolkit.config.commands.plot import PairPlotConfig

PANEL_WIDTH, MIN_PANEL_WIDTH, MAX_COLUMNS = 1.4, 1.0, 5  # inches; panels per row
ROW_HEIGHT, GAP, AXIS_HEIGHT = 0.145, 0.2, 0.6  # inches: of a model, of a panel, of the axis
LETTER, LINE = 0.52 / 72, 1.3 / 72  # inches of an average letter, for each point of the font size
CHANCE = 50.0
AXIS_LABEL = "accuracy (%)"
ERRORS_LABEL = " ± standard error over pairs"
SEEDS_LABEL = "; mean over seeds; strokes: each seed"


class GroupAccuracy(NamedTuple):
    """Accuracy of one model on one group of paradigms, in percent."""

    mean: float
    """Over seeds."""
    standard_error: float | None
    """Over pairs, the mean of the seeds'; None if unknown."""
    seeds: Sequence[float]
    """The accuracy of each seed."""


Panels = Mapping[str, Mapping[str, GroupAccuracy]]
"""Group of paradigms -> model -> its accuracy; all groups have the same models."""


def draw_panels(panels: Panels, labels: Mapping[str, str], c: PairPlotConfig) -> Figure:
    """One panel per group with a common scale, models from top to bottom."""
    first = next(iter(panels.values()))
    models = [labels[name] for name in first]
    fig, axes = new_panels([labels[name] for name in panels], models, c)
    for ax, panel in zip(axes, panels.values(), strict=True):
        for row, accuracy in enumerate(panel.values()):
            draw_accuracy(ax, row, accuracy)
        ax.axvline(CHANCE, color="#999999", linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
        ax.grid(axis="y", color="#e5e5e5", linewidth=0.5)
        ax.set_axisbelow(True)
        hide_box(ax)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(models)), models)
    axes[0].set_ylim(len(models) - 0.4, -0.6)  # the first model on top
    axes[0].title.set_fontweight("bold")
    letters = int(fig.get_figwidth() / (LETTER * c.font_size))
    fig.supxlabel(textwrap.fill(describe_axis(panels), letters))
    if c.title:
        fig.suptitle(c.title)
    return fig


def describe_axis(panels: Panels) -> str:
    """The label of the axis, which explains standard errors and seeds only if they are drawn."""
    accuracies = [accuracy for panel in panels.values() for accuracy in panel.values()]
    label = AXIS_LABEL
    if any(it.standard_error is not None for it in accuracies):
        label += ERRORS_LABEL
    if any(len(it.seeds) > 1 for it in accuracies):
        label += SEEDS_LABEL
    return label


def new_panels(
    titles: Sequence[str], models: Sequence[str], c: PairPlotConfig
) -> tuple[Figure, list[Axes]]:
    """A plot with a panel for each title, wrapped into rows that fit the width."""
    letter = LETTER * c.font_size
    left = letter * (max(map(len, models)) + 1)
    fitting = int((c.inches[0] - left) / MIN_PANEL_WIDTH) if c.inches else MAX_COLUMNS
    rows = math.ceil(len(titles) / max(1, min(fitting, len(titles))))
    columns = math.ceil(len(titles) / rows)
    width = c.inches[0] if c.inches else left + PANEL_WIDTH * columns
    letters = max(8, int((width - left) / columns / letter))
    wrapped = [textwrap.fill(title, letters) for title in titles]
    lines = max(title.count("\n") + 1 for title in wrapped)
    panel = ROW_HEIGHT * len(models) + GAP + LINE * c.font_size * lines
    fig = new_plot(width, rows * panel + AXIS_HEIGHT + 0.25 * bool(c.title))
    grid: Any = fig.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax, title in zip(grid.flat, wrapped, strict=False):
        ax.set_title(title, fontsize="small", pad=3)
    for ax in grid.flat[len(titles) :]:
        ax.remove()
    for ax in grid.flat[len(titles) - columns : len(titles)]:
        ax.tick_params(labelbottom=True)  # also where the panel below is missing
    return fig, list(grid.flat[: len(titles)])


def draw_accuracy(ax: Axes, row: int, accuracy: GroupAccuracy) -> None:
    """A marker with the standard error, and a stroke for each of several seeds."""
    style = line_style(row)
    ax.errorbar(
        accuracy.mean,
        row,
        xerr=accuracy.standard_error,
        color=style.color,
        marker=style.marker,
        markersize=3.5,
        elinewidth=0.9,
        linestyle="none",
    )
    if len(accuracy.seeds) > 1:
        rows = [row] * len(accuracy.seeds)
        ax.plot(accuracy.seeds, rows, "|", color=style.color, markersize=5, markeredgewidth=0.6)
