"""The legend of a plot of learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from toolkit.analysis.plots.curve_lines import CurveLine
from toolkit.analysis.plots.labels import label_subset, label_variants
from toolkit.analysis.plots.style import Figure
from toolkit.config.commands.plot import CurveConfig

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
