"""Plots of differences between vectors of equal words (TACO, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from toolkit.analysis.plots.style import COLORS, new_figure

PANEL_HEIGHT, BAR_WIDTH, MIN_WIDTH = 2.2, 0.14, 3.2  # inches
LEGEND_HEIGHT = 0.4
CLS_GROUP = "[CLS] of sentences"
MEASURES = {"distance": "distance / shorter vector", "angle": "angle in degrees"}


class VectorDifference(NamedTuple):
    """Difference between the vectors of a word, or of [CLS], in two sentences."""

    checkpoint: str
    sentences: tuple[int, int]
    """Numbers of the sentences in their file, from 1."""
    word: str
    distance: float
    """|v - w| / min(|v|, |w|)."""
    angle: float
    """Between v and w, in degrees."""


def draw_differences(found: Sequence[VectorDifference], title: str) -> Any:
    """One row of panels per pair of sentences, with distance and angle."""
    models = list(dict.fromkeys(one.checkpoint for one in found))
    groups = group_by_sentences(found)
    words = max(len(group) // len(models) for group in groups.values())
    width = max(MIN_WIDTH, BAR_WIDTH * words * (len(models) + 1) + 0.8)
    figure = new_figure(2 * width, PANEL_HEIGHT * len(groups) + LEGEND_HEIGHT)
    axes = figure.subplots(len(groups), 2, squeeze=False)
    for row, (name, group) in zip(axes, groups.items(), strict=True):
        for panel, first, (measure, label) in zip(row, axes[0], MEASURES.items(), strict=True):
            if panel is not first and name != CLS_GROUP:
                panel.sharey(first)  # words on one scale; sentences differ by much less
            draw_bars(panel, group, models, measure)
            panel.set_ylabel(label, fontsize=8)
            panel.set_title(name, fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(models), fontsize=8)
    if title:
        figure.suptitle(title)
    return figure


def group_by_sentences(found: Sequence[VectorDifference]) -> dict[str, list[VectorDifference]]:
    """Words by pair of sentences, then [CLS] of all pairs in one group."""
    groups: dict[str, list[VectorDifference]] = {}
    for one in found:
        pair = "{} and {}".format(*one.sentences)
        if one.word == "[CLS]":
            groups.setdefault(CLS_GROUP, []).append(one._replace(word=pair))
        else:
            groups.setdefault(f"words of sentences {pair}", []).append(one)
    return groups


def draw_bars(
    panel: Any, group: Sequence[VectorDifference], models: Sequence[str], measure: str
) -> None:
    """One group of bars per word, one bar per model."""
    wide = 0.8 / len(models)
    for number, model in enumerate(models):
        mine = [one for one in group if one.checkpoint == model]
        places = [place + (number - (len(models) - 1) / 2) * wide for place in range(len(mine))]
        heights = [getattr(one, measure) for one in mine]
        panel.bar(places, heights, wide, color=COLORS[number % len(COLORS)], label=model)
    names = [one.word for one in group if one.checkpoint == models[0]]
    turned = 45 if sum(map(len, names)) > 60 else 0
    panel.set_xticks(range(len(names)), names, fontsize=8, rotation=turned)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", labelsize=7)
