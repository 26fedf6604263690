"""Denoising of corrupted texts by an encoder-decoder model (BART, Lewis et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.common.registry import register_task
from toolkit.config.declared import AtLeast, Options, PositiveFloat
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.masking import HashNoise, round_budget
from toolkit.data.samples.sequence_pairs import TextSamples, TokenTexts
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.pretraining.mlm import OpenFraction
from toolkit.tasks.translation import SourceTargetTask, TranslationBatch, make_pair_batch

LENGTHS, SLOTS, SENTENCES = range(3)  # draws: each its own stream


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(Options, section="task"):
    """Options of the task denoising."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens of a text, end symbol included; 0 for 512, or the architecture's
    maximum if less."""
    sample_mode: Literal["blocks", "documents"] = "blocks"
    """Unit of one text. blocks: running text of this length, across all boundaries; documents: the
    same within one document."""
    mask_rate: OpenFraction = 0.3
    """Fraction of the words in masked spans."""
    poisson_lambda: PositiveFloat = 3.0
    """Mean of the Poisson distribution of the spans' lengths in words. A span becomes one mask; of
    length 0 it is an inserted one."""
    permute_sentences: bool = True
    """Shuffle the items of each text, such as sentences (toolkit-preprocess --segment-by
    sentences)."""


def infill(
    c: DenoisingConfig,
    tokens: IntArray,
    starts_word: BoolArray,
    sentences: IntArray,
    noise: HashNoise,
    *,
    rate: float,
    mask: int,
) -> IntArray:
    """A text, of which each token belongs to a sentence 0, 1, .., as the encoder reads it: spans
    are masked and sentences exchanged (section 2.2).

    Of n words, max(1, round(rate n)) are in spans that are drawn until there are enough, with
    lengths from a Poisson distribution; the last one is cut. Each becomes one mask, those of
    length 0 too, if this does not make the text longer. All orders of spans and of the other
    words are equally likely. In the authors' code spans may overlap, so that fewer words are
    masked.
    """
    if c.permute_sentences:
        keys = noise.grid(SENTENCES, int(sentences.max(initial=0)) + 1)[0]
        order = np.argsort(keys[sentences], kind="stable")
        tokens, starts_word = tokens[order], starts_word[order]
    edges = np.append(np.flatnonzero(starts_word), len(tokens))
    words = len(edges) - 1
    budget = int(round_budget(np.array(words), rate))
    lengths = draw_lengths(noise, budget, c.poisson_lambda)
    sizes = np.ones(words - budget + len(lengths), np.int64)
    chosen = np.argsort(noise.grid(SLOTS, len(sizes))[0])[: len(lengths)]
    sizes[chosen] = lengths
    ends = np.cumsum(sizes)
    first, counts = edges[ends - sizes], edges[ends] - edges[ends - sizes]
    counts[chosen] = 1
    visible = tokens[ragged_arange(first, counts).clip(max=len(tokens) - 1)]
    visible[(np.cumsum(counts) - counts)[chosen]] = mask
    return visible


def draw_lengths(noise: HashNoise, budget: int, mean: float) -> IntArray:
    """Lengths of spans whose sum is the budget."""
    count, total = 8, np.zeros(1, np.int64)
    ratios = mean / np.arange(1, 64 + 4 * mean)
    edges = np.exp(-mean) * np.append(1, ratios).cumprod().cumsum()
    while total[-1] < budget:
        count *= 2
        lengths = np.searchsorted(edges, noise.grid(LENGTHS, count)[0], side="right")
        total = np.cumsum(lengths)
    last = int(np.searchsorted(total, budget))
    lengths = lengths[: last + 1]
    lengths[last] -= total[last] - budget
    empty = lengths == 0
    return lengths[~empty | (np.cumsum(empty) <= budget - np.count_nonzero(lengths))]


OBJECTIVE = "denoising"


class DenoisingExamples(Examples[TranslationBatch]):
    """The texts of one split; every epoch corrupts them in another way."""

    scheduled: ClassVar[tuple[str, ...]] = ("task.mask_rate",)

    def __init__(self, c: DenoisingConfig, source: SplitSource) -> None:
        folder, split = source.folder, source.folder.split(source.name)
        self.config, self.source, self.row_multiple = c, source, source.row_multiple
        self._vocabulary, column = folder.vocabulary, split.column("tokens")
        tokens = c.tokens_per_sample + 1  # [CLS] is not read
        self._samples = TextSamples(
            column, folder.vocabulary, sample_mode=c.sample_mode, tokens_per_sample=tokens
        )
        self.text = self._samples, folder, split
        self._item_starts = column.item_starts
        self.lengths = self._samples.lengths - 1
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, c, source.seed)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TranslationBatch:
        texts = self._samples.read_batch(ids % len(self))
        starts_word = self._vocabulary.masked_words.starts(texts.tokens)
        first = self._samples.spans.starts[ids % len(self), None]
        elements = first + np.arange(-1, texts.tokens.shape[1] - 1)  # [CLS] comes first
        items = np.searchsorted(self._item_starts, elements, side="right")
        starts_word[:, 1:] |= items[:, 1:] > items[:, :-1]
        starts_word[:, 1] = True
        rate, mask = self.scheduled_value("mask_rate", epoch), self._vocabulary.mask
        noised = []
        for row, kept in enumerate(texts.candidates):
            item = items[row, kept] - items[row, 1]
            draws = self.noise(ids[row : row + 1], epoch)
            text = texts.tokens[row, kept], starts_word[row, kept]
            noised.append(infill(self.config, *text, item, draws, rate=rate, mask=mask))
        source = TokenTexts(np.concatenate(noised), np.array([len(row) for row in noised]))
        target = TokenTexts(texts.tokens[texts.candidates], texts.candidates.sum(1))
        both = self._vocabulary, self._vocabulary
        return make_pair_batch(OBJECTIVE, ids, (source, target), both, self.row_multiple)


@register_task("denoising", DenoisingConfig())
class Denoising(SourceTargetTask[DenoisingConfig, DenoisingExamples]):
    """-log p(x_t | x_1 .. x_{t-1}, x'), t over all tokens of a text and its end symbol.

    x' is the text with sentences in another order and spans of words replaced by single masks.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, default_tokens = DenoisingExamples, 512
