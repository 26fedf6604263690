"""Plots of differences between vectors of equal words (TACO, Fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from toolkit.analysis.plots.style import COLORS, HATCHES, Axes, Figure, hide_box, new_plot

PANEL_HEIGHT, BAR_WIDTH, MIN_WIDTH = 2.2, 0.14, 3.2  # inches
LEGEND_HEIGHT = 0.4
CLS, CLS_GROUP = "[CLS]", "[CLS] of sentences"
MEASURES = {"distance": "relative distance", "angle": "angle (degrees)"}


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


def draw_differences(differences: Sequence[VectorDifference], title: str) -> Figure:
    """One row of panels per pair of sentences, with distance and angle."""
    models = list(dict.fromkeys(it.checkpoint for it in differences))
    groups = group_by_sentences(differences)
    words = max(len(group) // len(models) for group in groups.values())
    width = max(MIN_WIDTH, BAR_WIDTH * words * (len(models) + 1) + 0.8)
    fig = new_plot(2 * width, PANEL_HEIGHT * len(groups) + LEGEND_HEIGHT)
    axes = fig.subplots(len(groups), 2, squeeze=False)
    for row, (name, group) in zip(axes, groups.items(), strict=True):
        for ax, first, (measure, label) in zip(row, axes[0], MEASURES.items(), strict=True):
            if ax is not first and name != CLS_GROUP:
                ax.sharey(first)  # words on one scale; sentences differ by much less
            draw_bars(ax, group, models, measure)
            ax.set_ylabel(label)
            ax.set_title(name)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(models), frameon=False)
    if title:
        fig.suptitle(title)
    return fig


def group_by_sentences(
    differences: Sequence[VectorDifference],
) -> dict[str, list[VectorDifference]]:
    """Words by pair of sentences, then [CLS] of all pairs in one group."""
    groups: dict[str, list[VectorDifference]] = {}
    for it in differences:
        pair = "{} and {}".format(*it.sentences)
        if it.word == CLS:
            groups.setdefault(CLS_GROUP, []).append(it._replace(word=pair))
        else:
            groups.setdefault(f"words of sentences {pair}", []).append(it)
    return groups


def draw_bars(
    ax: Axes, group: Sequence[VectorDifference], models: Sequence[str], measure: str
) -> None:
    """One group of bars per word, one bar per model."""
    width = 0.8 / len(models)
    for number, model in enumerate(models):
        heights = [getattr(it, measure) for it in group if it.checkpoint == model]
        shift = (number - (len(models) - 1) / 2) * width
        x = [index + shift for index in range(len(heights))]
        ax.bar(
            x,
            heights,
            width,
            color=COLORS[number % len(COLORS)],
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white",
            linewidth=0.4,
            label=model,
        )
    words = [it.word for it in group if it.checkpoint == models[0]]
    rotation = 45 if sum(map(len, words)) > 60 else 0
    ax.set_xticks(range(len(words)), words, rotation=rotation)
    hide_box(ax)
    ax.tick_params(axis="x", length=0)
