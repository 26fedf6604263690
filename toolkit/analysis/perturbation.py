"""toolkit-plot perturbation: changes of word vectors in a reordered sentence."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.analysis.plot_style import (
    COLORS,
    HATCHES,
    Axes,
    Figure,
    hide_box,
    new_plot,
    open_plot,
    parse_labels,
    to_words,
    write_plot,
)
from toolkit.analysis.read_text import encode_sentence, load_reader, model_device, read_lines
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PerturbationConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.learner import Learner

Vectors = dict[str, Float[Tensor, " D"]]
"""Word, with a number from its second occurrence on -> its vector."""


def plot_perturbation(c: PerturbationConfig) -> None:
    """Draw, print and write the differences between vectors of equal words."""
    with open_plot(c) as output:
        lines = read_lines(c.sentences)
        if len(lines) < 2:
            raise ToolkitError(
                f"--sentences must contain at least two sentences, but {c.sentences} contains "
                f"{len(lines)}. Write one per line; the first is compared with the others."
            )
        names = dict(zip(c.path, short_names(c.path), strict=True))
        given = parse_labels(c.labels, names.values())
        differences = []
        for path in c.path:
            for it in compare_sentences(load_reader(path, c.device), lines, path):
                output.write("difference", it._asdict())
                differences.append(it._replace(checkpoint=names[path]))
        for number, line in enumerate(lines, 1):
            output.print_line(f"{number}  {line}")
        difference_table(differences, list(names.values())).print(output.console)
        words = {name: given.get(name, to_words(name)) for name in names.values()}
        drawn = [it._replace(checkpoint=words[it.checkpoint]) for it in differences]
        write_plot(c, draw_differences, drawn, output=output)


def compare_sentences(
    learner: Learner, lines: Sequence[str], path: str
) -> Iterator[VectorDifference]:
    """Compare words of the first sentence with each other sentence, and [CLS] of all pairs."""
    vectors = [compute_vectors(learner, line) for line in lines]
    for number in range(1, len(lines)):
        for word in vectors[0]:
            if word != CLS and word in vectors[number]:
                yield compare_vectors(vectors, (0, number), word, path)
    for pair in combinations(range(len(lines)), 2):
        yield compare_vectors(vectors, pair, CLS, path)


def compare_vectors(
    vectors: Sequence[Vectors], pair: tuple[int, int], word: str, path: str
) -> VectorDifference:
    """d = |v - w| / min(|v|, |w|) and arccos(v . w / |v| |w|) (TACO, Fig. 1)."""
    v, w = (vectors[number][word].double() for number in pair)
    norms = v.norm(), w.norm()
    cosine = (v @ w / (norms[0] * norms[1])).clamp(-1, 1)
    sentences = (pair[0] + 1, pair[1] + 1)
    distance = ((v - w).norm() / min(norms)).item()
    return VectorDifference(path, sentences, word, distance, cosine.arccos().rad2deg().item())


@torch.no_grad()
def compute_vectors(learner: Learner, line: str) -> Vectors:
    """Vectors of the last layer; a word's is the mean over its subwords."""
    ids = encode_sentence(learner, line, "a sentence")
    tokens = torch.tensor([ids], device=model_device(learner))
    states = learner.encoder(Inputs(tokens)).states[0].float().cpu()
    vectors: Vectors = {CLS: states[0]}
    occurrences: Counter[str] = Counter()
    for word, positions in split_words(learner.tokenizer, ids):
        occurrences[word] += 1
        number = f" ({occurrences[word]})" if occurrences[word] > 1 else ""
        vectors[word + number] = states[positions].mean(0)
    return vectors


def split_words(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Each lowercased word and the positions of its subwords, without punctuation."""
    vocabulary = tokenizer.vocabulary
    words: list[list[int]] = []
    starts = vocabulary.words.starts(np.array(ids, np.int64))
    for position, i in enumerate(ids):
        if i in vocabulary.special:
            continue
        if not words or starts[position]:
            words.append([])
        words[-1].append(position)

    def strip(positions: Sequence[int]) -> str:
        text = tokenizer.decode([ids[position] for position in positions])
        return text.strip().lower().strip(string.punctuation)

    for word in words:
        lettered = [index for index, position in enumerate(word) if strip([position])]
        if lettered:
            positions = word[lettered[0] : lettered[-1] + 1]
            yield strip(positions), positions


def difference_table(differences: Sequence[VectorDifference], paths: Sequence[str]) -> Table:
    """One row per word and pair of sentences, two columns per checkpoint."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for it in differences:
        key = "{}, {}".format(*it.sentences), it.word
        rows.setdefault(key, {})[it.checkpoint] = [f"{it.distance:.3f}", f"{it.angle:.3f}"]
    names = [""] if len(paths) == 1 else [f" {path}" for path in paths]
    return Table(
        columns=["sentences", "word", *(f"{m}{n}" for n in names for m in ("distance", "angle"))],
        rows=[
            [*key, *(cell for path in paths for cell in row.get(path, ["-", "-"]))]
            for key, row in rows.items()
        ],
        caption="distance: |v - w| / min(|v|, |w|); angle: between v and w, in degrees",
    )


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


def draw_differences(differences: Sequence[VectorDifference]) -> Figure:
    """One row of panels per pair of sentences, with distance and angle."""
    models = list(dict.fromkeys(it.checkpoint for it in differences))
    groups: dict[str, list[VectorDifference]] = {}
    for it in differences:  # words by pair of sentences, then [CLS] of all pairs
        pair = "{} and {}".format(*it.sentences)
        name = CLS_GROUP if it.word == CLS else f"words of sentences {pair}"
        groups.setdefault(name, []).append(it._replace(word=pair) if it.word == CLS else it)
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
    return fig


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
