"""Plots of attention maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from toolkit.analysis.plots.style import new_figure

MIN_INCHES, MAX_INCHES = 0.95, 3.2  # inches of a map's side
INCHES_PER_TOKEN = 0.11
GAP, TITLE, LABEL = 0.1, 0.24, 0.3  # inches between maps, above one, and for an axis' label
BAR_HEIGHT, BAR_SPACE = 2.4, 0.85  # inches of the color bar, and for it and its numbers
POINTS = 72.0  # of an inch
LETTER = 0.62  # width of a letter, as a share of its height
MAX_COLUMNS = 4  # maps beside each other where there is one for each layer


class HeadMap(NamedTuple):
    """Weights of one head of one layer, or a mean of heads."""

    layer: int | None
    """None: the mean over layers."""
    head: int | None
    """None: the mean over heads."""
    weights: Sequence[Sequence[float]]
    """Row i: how much token i attends to each token."""

    @property
    def title(self) -> str:
        if self.layer is None:
            return "mean"
        return f"layer {self.layer}" + ("" if self.head is None else f", head {self.head}")


def draw_maps(maps: Sequence[HeadMap], tokens: Sequence[str], title: str) -> Any:
    """Maps on a common square-root scale, which keeps small weights visible.

    All parts are placed manually: automatic layout of 144 labeled maps takes a minute.
    """
    rows, columns = grid_shape(maps)
    side = min(MAX_INCHES, max(MIN_INCHES, INCHES_PER_TOKEN * len(tokens)))
    points = min(8.0, max(3.0, 0.85 * POINTS * side / len(tokens)))
    margin = points / POINTS * LETTER * max(map(len, tokens)) + 0.1 + LABEL
    width = margin + columns * (side + GAP) + BAR_SPACE
    height = margin + rows * (side + TITLE) + LABEL
    figure, most = new_figure(width, height, constrained=False), max_weight(maps)
    for place, drawn in enumerate(maps):
        row, column = divmod(place, columns)
        corner = margin + column * (side + GAP), height - LABEL - (row + 1) * (side + TITLE)
        panel = figure.add_axes(figure_fractions(figure, *corner, side, side))
        image = draw_map(panel, drawn, most)
        below = place + columns >= len(maps)
        label_tokens(panel, tokens, points, beside=column == 0, below=below)
    bar = min(BAR_HEIGHT, height - margin - LABEL - TITLE)
    middle = (height + margin - LABEL) / 2
    side_bar = figure.add_axes(
        figure_fractions(figure, width - BAR_SPACE + 0.1, middle - bar / 2, 0.13, bar)
    )
    add_colorbar(figure, image, side_bar)
    figure.text(0.5, 1 - 0.17 / height, title, ha="center", va="center", fontsize=9)
    middle_of_maps = (margin + (columns * (side + GAP) - GAP) / 2) / width
    figure.text(middle_of_maps, 0.12 / height, "token that is attended to", ha="center", fontsize=8)
    figure.text(
        0.17 / width,
        middle / height,
        "token that attends",
        rotation=90,
        va="center",
        fontsize=8,
        ha="center",
    )
    return figure


def figure_fractions(
    figure: Any, left: float, bottom: float, width: float, height: float
) -> list[float]:
    """Inches as fractions of the figure."""
    whole = figure.get_size_inches()
    return [left / whole[0], bottom / whole[1], width / whole[0], height / whole[1]]


def add_colorbar(figure: Any, image: Any, axes: Any) -> None:
    """Add the color bar."""
    bar = figure.colorbar(image, cax=axes)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    bar.set_label("weight, square-root scale", fontsize=8)


def grid_shape(maps: Sequence[HeadMap]) -> tuple[int, int]:
    """Rows and columns of the grid of maps."""
    if maps[0].head is None:
        columns = min(MAX_COLUMNS, len(maps))
        return math.ceil(len(maps) / columns), columns
    layers = {drawn.layer for drawn in maps}
    return len(layers), len(maps) // len(layers)


def max_weight(maps: Sequence[HeadMap]) -> float:
    return max(weight for drawn in maps for row in drawn.weights for weight in row)


def draw_map(panel: Any, drawn: HeadMap, most: float) -> Any:
    from matplotlib.colors import PowerNorm

    scale = PowerNorm(0.5, vmin=0.0, vmax=most)
    panel.spines[:].set_color("#bbbbbb")
    panel.set_title(drawn.title, fontsize=7, pad=2)
    return panel.imshow(drawn.weights, cmap="Blues", norm=scale, interpolation="nearest")


def label_tokens(
    panel: Any, tokens: Sequence[str], points: float, *, beside: bool, below: bool
) -> None:
    """Label the outer maps with tokens."""
    places = range(len(tokens))
    panel.tick_params(length=0, pad=1, labelsize=points)
    panel.set_yticks(places if beside else [], tokens if beside else [])
    panel.set_xticks(places if below else [], tokens if below else [], rotation=90)


MEAN_INCHES_PER_TOKEN, MIN_MEAN_INCHES, MAX_MEAN_INCHES = 0.14, 2.2, 5.0  # of a map's side
BAR_WIDTH, MEAN_BAR_SPACE = 0.13, 0.85  # inches of the color bar, and for it and its numbers


class MeanMap(NamedTuple):
    """Mean of all maps of one model for a sentence."""

    name: str
    tokens: Sequence[str]
    weights: Sequence[Sequence[float]]
    concentration: float | None
    """C of the map (`attention_distance`), if known."""

    @property
    def title(self) -> str:
        near = "" if self.concentration is None else f"C = {self.concentration:.3f}"
        return ", ".join(part for part in (self.name, near) if part)


def draw_mean_maps(means: Sequence[MeanMap], title: str) -> Any:
    """One panel per model on a common scale, each with its own tokens."""
    most = max(len(mean.tokens) for mean in means)
    side = min(MAX_MEAN_INCHES, max(MIN_MEAN_INCHES, MEAN_INCHES_PER_TOKEN * most))
    points = min(8.0, max(3.0, 0.85 * POINTS * side / most))
    longest = max(len(token) for mean in means for token in mean.tokens)
    margin = points / POINTS * LETTER * longest + 0.1
    width = LABEL + len(means) * (margin + side + GAP) + MEAN_BAR_SPACE
    height = LABEL + margin + side + TITLE + bool(title) * LABEL
    figure = new_figure(width, height, constrained=False)
    largest = max(weight for mean in means for row in mean.weights for weight in row)
    bottom = LABEL + margin
    for place, mean in enumerate(means):
        left = LABEL + margin + place * (margin + side + GAP)
        panel = figure.add_axes(figure_fractions(figure, left, bottom, side, side))
        image = draw_map(panel, HeadMap(None, None, mean.weights), largest)
        panel.set_title(mean.title, fontsize=8, pad=3)
        label_tokens(panel, mean.tokens, points, beside=True, below=True)
    bar = figure_fractions(figure, width - MEAN_BAR_SPACE + 0.1, bottom, BAR_WIDTH, side)
    add_colorbar(figure, image, figure.add_axes(bar))
    label_axes(figure, title, width, height)
    return figure


def label_axes(figure: Any, title: str, width: float, height: float) -> None:
    middle = (width - MEAN_BAR_SPACE) / 2 / width
    figure.text(middle, 0.12 / height, "token that is attended to", ha="center", fontsize=8)
    figure.text(
        0.15 / width, 0.5, "token that attends", rotation=90, ha="center", va="center", fontsize=8
    )
    if title:
        letters = max(20, math.floor(width * POINTS / (9 * LETTER)))
        shown = title if len(title) <= letters else title[: letters - 3] + "..."
        figure.text(0.5, 1 - 0.17 / height, shown, ha="center", va="center", fontsize=9)
