"""toolkit-plot perturbation: changes of word vectors in a reordered sentence."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.analysis.plots.perturbation import VectorDifference, draw_differences
from toolkit.analysis.plots.style import save_figure
from toolkit.analysis.read_text import (
    encode_with_special_tokens,
    load_reader,
    max_length,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PerturbationConfig
from toolkit.models.interface import Inputs
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.task import Learner

CLS = "[CLS]"
Vectors = dict[str, Float[Tensor, " D"]]
"""Word, numbered from its second occurrence on -> its vector."""


def plot_perturbation(c: PerturbationConfig) -> None:
    """Draw, print and write the differences between vectors of equal words."""
    with Output(c.json) as output:
        lines = read_lines(c.sentences)
        if len(lines) < 2:
            raise ToolkitError(
                f"--sentences must contain at least two sentences, but {c.sentences} contains "
                f"{len(lines)}. Write one per line; the first is compared with the others."
            )
        found = [
            one
            for path in c.path
            for one in compare_sentences(load_reader(path, c.device), lines, path)
        ]
        for one in found:
            output.write("difference", one._asdict())
        for number, line in enumerate(lines, 1):
            output.console.print(f"{number}  {line}", markup=False, highlight=False)
        names = dict(zip(c.path, short_names(c.path), strict=True))
        shown = [one._replace(checkpoint=names[one.checkpoint]) for one in found]
        difference_table(shown, list(names.values())).print(output.console)
        save_figure(draw_differences(shown, c.title), c.output_file)
        print(c.output_file, file=output.text_stream)


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
    """d = |v - w| / min(|v|, |w|) and arccos(v . w / |v| |w|) (TACO, figure 1)."""
    v, w = (vectors[number][word].double() for number in pair)
    lengths = v.norm(), w.norm()
    cosine = (v @ w / (lengths[0] * lengths[1])).clamp(-1, 1)
    sentences = (pair[0] + 1, pair[1] + 1)
    distance = ((v - w).norm() / min(lengths)).item()
    return VectorDifference(path, sentences, word, distance, cosine.arccos().rad2deg().item())


@torch.no_grad()
def compute_vectors(learner: Learner, line: str) -> Vectors:
    """Vectors of the last layer; a word's is the mean over its subwords."""
    ids = encode_with_special_tokens(learner, line)
    if len(ids) > max_length(learner):
        raise ToolkitError(
            f"a sentence must have at most {max_length(learner)} tokens for this model, but this "
            "has "
            f"{len(ids)}: {line[:60]!r}. Shorten it."
        )
    encoder: Any = learner.encoder
    tokens = torch.tensor([ids], device=encoder.token_embedding.weight.device)
    states = learner.encoder(Inputs(tokens)).states[0].float().cpu()
    found: Vectors = {CLS: states[0]}
    for name, places in split_words(learner.tokenizer, ids):
        count = sum(known.split(" ")[0] == name for known in found)
        found[name if count == 0 else f"{name} ({count + 1})"] = states[places].mean(0)
    return found


def split_words(tokenizer: Any, ids: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Each lowercased word and the positions of its subwords, without punctuation."""
    vocabulary = tokenizer.vocabulary
    words: list[list[int]] = []
    for place, i in enumerate(ids):
        if i in vocabulary.special:
            continue
        if not words or vocabulary.starts_word[i]:
            words.append([])
        words[-1].append(place)

    def bare(places: Sequence[int]) -> str:
        return tokenizer.decode([ids[p] for p in places]).strip().lower().strip(string.punctuation)

    for word in words:
        named = [place for place in word if bare([place])]
        if named:
            whole = word[word.index(named[0]) : word.index(named[-1]) + 1]
            yield bare(whole), whole


def difference_table(found: Sequence[VectorDifference], paths: Sequence[str]) -> Table:
    """One row per word and pair of sentences, two columns per checkpoint."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in found:
        key = "{}, {}".format(*one.sentences), one.word
        rows.setdefault(key, {})[one.checkpoint] = [f"{one.distance:.3f}", f"{one.angle:.3f}"]
    names = [""] if len(paths) == 1 else [f" {path}" for path in paths]
    return Table(
        columns=["sentences", "word", *(f"{m}{n}" for n in names for m in ("distance", "angle"))],
        rows=[
            [*key, *(figure for path in paths for figure in row.get(path, ["-", "-"]))]
            for key, row in rows.items()
        ],
        caption="distance: |v - w| / min(|v|, |w|); angle: between v and w, in degrees",
    )
