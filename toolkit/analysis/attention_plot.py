"""Plots of attention maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from toolkit.analysis.plot_style import Axes, AxesImage, Figure, new_plot, style_colorbar

INCHES_PER_TOKEN, MIN_INCHES, MAX_INCHES = 0.11, 0.95, 3.2  # of a map's side
MEAN_INCHES_PER_TOKEN, MIN_MEAN_INCHES, MAX_MEAN_INCHES = 0.14, 2.2, 5.0
GAP, TITLE, LABEL = 0.1, 0.24, 0.3  # inches between maps, above one, and for an axis label
BAR_WIDTH, BAR_HEIGHT, BAR_SPACE = 0.13, 2.4, 0.85  # inches; the space includes the numbers
POINTS = 72.0  # per inch
LETTER = 0.62  # width of a letter relative to its height
MAX_COLUMNS = 4  # maps per row if there is one per layer

Weights = Sequence[Sequence[float]]
"""Row i: how much token i attends to each token."""


class HeadMap(NamedTuple):
    """Weights of one head of one layer, or a mean of heads."""

    layer: int | None
    """None: the mean over layers."""
    head: int | None
    """None: the mean over heads."""
    weights: Weights

    @property
    def title(self) -> str:
        if self.layer is None:
            return "mean"
        return f"layer {self.layer}" + ("" if self.head is None else f", head {self.head}")


class MeanMap(NamedTuple):
    """Mean of all maps of one model for a sentence."""

    name: str
    tokens: Sequence[str]
    weights: Weights
    concentration: float | None
    """C of the map (`attention_distance`), if known."""

    @property
    def title(self) -> str:
        c = "" if self.concentration is None else f"C = {self.concentration:.3f}"
        return ", ".join(part for part in (self.name, c) if part)


def draw_maps(maps: Sequence[HeadMap], tokens: Sequence[str], title: str) -> Figure:
    """Maps on a common square-root scale, which keeps small weights visible.

    All parts are placed manually: automatic layout of 144 labeled maps takes a minute.
    """
    rows, columns = grid_shape(maps)
    side = min(MAX_INCHES, max(MIN_INCHES, INCHES_PER_TOKEN * len(tokens)))
    points = label_size(side, len(tokens))
    margin = label_inches(points, tokens) + LABEL
    width = margin + columns * (side + GAP) + BAR_SPACE
    height = margin + rows * (side + TITLE) + LABEL
    fig, vmax = new_plot(width, height, constrained=False), max_weight([m.weights for m in maps])
    for index, head_map in enumerate(maps):
        row, column = divmod(index, columns)
        corner = margin + column * (side + GAP), height - LABEL - (row + 1) * (side + TITLE)
        ax = add_axes(fig, *corner, side, side)
        image = draw_map(ax, head_map.weights, vmax)
        ax.set_title(head_map.title, fontsize="small", pad=2)
        label_tokens(ax, tokens, points, left=column == 0, below=index + columns >= len(maps))
    bar = min(BAR_HEIGHT, height - margin - LABEL - TITLE)
    middle = (height + margin - LABEL) / 2
    draw_scale(fig, image, middle - bar / 2, bar)
    center = margin + (columns * (side + GAP) - GAP) / 2
    label_plot(fig, title, center / width, middle / height)
    return fig


def draw_mean_maps(means: Sequence[MeanMap], title: str) -> Figure:
    """One panel per model on a common scale, each with its tokens."""
    length = max(len(mean.tokens) for mean in means)
    side = min(MAX_MEAN_INCHES, max(MIN_MEAN_INCHES, MEAN_INCHES_PER_TOKEN * length))
    points = label_size(side, length)
    margin = label_inches(points, [token for mean in means for token in mean.tokens])
    width = LABEL + len(means) * (margin + side + GAP) + BAR_SPACE
    bottom = LABEL + margin
    fig = new_plot(width, bottom + side + TITLE + bool(title) * LABEL, constrained=False)
    vmax = max_weight([mean.weights for mean in means])
    for index, mean in enumerate(means):
        left = LABEL + margin + index * (margin + side + GAP)
        ax = add_axes(fig, left, bottom, side, side)
        image = draw_map(ax, mean.weights, vmax)
        ax.set_title(mean.title, pad=3)
        label_tokens(ax, mean.tokens, points, left=True, below=True)
    draw_scale(fig, image, bottom, side)
    label_plot(fig, title, (width - BAR_SPACE) / 2 / width, 0.5)
    return fig


def label_size(side: float, tokens: int) -> float:
    """Font size in points of token labels, of which `tokens` share a side."""
    return min(8.0, max(3.0, 0.85 * POINTS * side / tokens))


def label_inches(points: float, tokens: Sequence[str]) -> float:
    """Space for the longest label."""
    return points / POINTS * LETTER * max(map(len, tokens)) + 0.1


def grid_shape(maps: Sequence[HeadMap]) -> tuple[int, int]:
    """Rows and columns of the grid of maps."""
    if maps[0].head is None:
        columns = min(MAX_COLUMNS, len(maps))
        return math.ceil(len(maps) / columns), columns
    layers = {head_map.layer for head_map in maps}
    return len(layers), len(maps) // len(layers)


def max_weight(maps: Sequence[Weights]) -> float:
    """The largest weight of all maps, the end of their common color scale."""
    return max(weight for weights in maps for row in weights for weight in row)


def add_axes(fig: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a position in inches."""
    w, h = fig.get_size_inches()
    return fig.add_axes((left / w, bottom / h, width / w, height / h))


def draw_map(ax: Axes, weights: Weights, vmax: float) -> AxesImage:
    """Draw one map; colors grow with the square root of the weight."""
    from matplotlib.colors import PowerNorm

    ax.spines[:].set_color("#bbbbbb")
    scale = PowerNorm(0.5, vmin=0.0, vmax=vmax)
    return ax.imshow(weights, cmap="Blues", norm=scale, interpolation="nearest")


def label_tokens(
    ax: Axes, tokens: Sequence[str], points: float, *, left: bool, below: bool
) -> None:
    """Label the outer maps with tokens."""
    ticks = range(len(tokens))
    ax.tick_params(length=0, pad=1, labelsize=points)
    ax.set_yticks(ticks if left else [], tokens if left else [])
    ax.set_xticks(ticks if below else [], tokens if below else [], rotation=90)


def draw_scale(fig: Figure, image: AxesImage, bottom: float, height: float) -> None:
    """A color bar at the right edge."""
    left = fig.get_figwidth() - BAR_SPACE + 0.1
    bar = fig.colorbar(image, cax=add_axes(fig, left, bottom, BAR_WIDTH, height))
    bar.set_label("weight, square-root scale")
    style_colorbar(bar)


def label_plot(fig: Figure, title: str, x: float, y: float) -> None:
    """Label both axes of all maps, centered at (x, y); long titles are shortened."""
    width, height = fig.get_size_inches()
    fig.text(x, 0.12 / height, "token that is attended to", ha="center")
    fig.text(0.17 / width, y, "token that attends", rotation=90, ha="center", va="center")
    letters = max(20, math.floor(width * POINTS / (9 * LETTER)))
    shortened = title if len(title) <= letters else title[: letters - 3] + "..."
    fig.text(0.5, 1 - 0.17 / height, shortened, ha="center", va="center", fontsize="medium")
