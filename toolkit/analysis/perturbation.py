"""toolkit-plot perturbation: changes of word vectors in a reordered sentence."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.analysis.plots.labels import parse_labels, to_words
from toolkit.analysis.plots.perturbation import CLS, VectorDifference, draw_differences
from toolkit.analysis.plots.style import plot_style, save_plot
from toolkit.analysis.read_text import (
    encode_whole_sentence,
    load_reader,
    model_device,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PerturbationConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.learner import Learner

Vectors = dict[str, Float[Tensor, " D"]]
"""Word, with a number from its second occurrence on -> its vector."""


def plot_perturbation(c: PerturbationConfig) -> None:
    """Draw, print and write the differences between vectors of equal words."""
    with Output(c.json) as output:
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
        with plot_style(c):
            save_plot(draw_differences(drawn, c.title), c)
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
    ids = encode_whole_sentence(learner, line, "a sentence")
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
    for position, i in enumerate(ids):
        if i in vocabulary.special:
            continue
        if not words or vocabulary.starts_word[i]:
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
