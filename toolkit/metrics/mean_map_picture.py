"""Mean attention maps of models beside each other, after figure 2 of ConvBERT (2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from toolkit.metrics.map_picture import GAP, LABEL, LETTER, POINTS, TITLE, Map, inches, label, show
from toolkit.metrics.map_picture import explain as explain_colours
from toolkit.metrics.pictures import new_figure

INCHES_PER_TOKEN, SMALLEST, LARGEST = 0.14, 2.2, 5.0  # of a map's side
BAR_WIDTH, BAR_SPACE = 0.13, 0.85  # inches of the colour bar, and for it and its numbers


class MeanMap(NamedTuple):
    """The mean of all maps of one model for a sentence."""

    name: str
    tokens: Sequence[str]
    weights: Sequence[Sequence[float]]
    concentration: float | None
    """How near to the diagonal it is, if that is known."""

    @property
    def title(self) -> str:
        near = "" if self.concentration is None else f"C = {self.concentration:.3f}"
        return ", ".join(part for part in (self.name, near) if part)


def draw(means: Sequence[MeanMap], title: str) -> Any:
    """One panel a model on a common scale, each with its own tokens: vocabularies may differ."""
    most = max(len(mean.tokens) for mean in means)
    side = min(LARGEST, max(SMALLEST, INCHES_PER_TOKEN * most))
    points = min(8.0, max(3.0, 0.85 * POINTS * side / most))
    longest = max(len(token) for mean in means for token in mean.tokens)
    margin = points / POINTS * LETTER * longest + 0.1
    width = LABEL + len(means) * (margin + side + GAP) + BAR_SPACE
    height = LABEL + margin + side + TITLE + bool(title) * LABEL
    figure = new_figure(width, height, arranged=False)
    largest = max(weight for mean in means for row in mean.weights for weight in row)
    bottom = LABEL + margin
    for place, mean in enumerate(means):
        left = LABEL + margin + place * (margin + side + GAP)
        panel = figure.add_axes(inches(figure, left, bottom, side, side))
        image = show(panel, Map(None, None, mean.weights), largest)
        panel.set_title(mean.title, fontsize=8, pad=3)
        label(panel, mean.tokens, points, beside=True, below=True)
    bar = inches(figure, width - BAR_SPACE + 0.1, bottom, BAR_WIDTH, side)
    explain_colours(figure, image, figure.add_axes(bar))
    axes_names(figure, title, width, height)
    return figure


def axes_names(figure: Any, title: str, width: float, height: float) -> None:
    middle = (width - BAR_SPACE) / 2 / width
    figure.text(middle, 0.12 / height, "token that is attended to", ha="center", fontsize=8)
    figure.text(
        0.15 / width, 0.5, "token that attends", rotation=90, ha="center", va="center", fontsize=8
    )
    if title:
        letters = max(20, math.floor(width * POINTS / (9 * LETTER)))
        shown = title if len(title) <= letters else title[: letters - 3] + "..."
        figure.text(0.5, 1 - 0.17 / height, shown, ha="center", va="center", fontsize=9)
