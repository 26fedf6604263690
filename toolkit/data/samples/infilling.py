"""Text infilling and sentence permutation, the noise of BART (Lewis et al. 2020, section 2.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.data.samples.masking import HashNoise, round_budget

LENGTHS, SLOTS, SENTENCES = range(3)  # draws: each its own stream


class Infilling(NamedTuple):
    """The options of the noise."""

    rate: float
    mean_length: float
    permutes: bool
    mask: int

    def apply(
        self, tokens: IntArray, starts_word: BoolArray, sentences: IntArray, noise: HashNoise
    ) -> IntArray:
        """A text, of which each token belongs to a sentence 0, 1, .., as the encoder reads it.

        Of n words, max(1, round(rate n)) are in spans that are drawn until there are enough, with
        lengths from a Poisson distribution; the last one is cut. Each becomes one mask, those of
        length 0 too, if this does not make the text longer. All orders of spans and of the other
        words are equally likely. In the authors' code spans may overlap, so that fewer words are
        masked.
        """
        if self.permutes:
            keys = noise.grid(SENTENCES, int(sentences.max(initial=0)) + 1)[0]
            order = np.argsort(keys[sentences], kind="stable")
            tokens, starts_word = tokens[order], starts_word[order]
        edges = np.append(np.flatnonzero(starts_word), len(tokens))
        words = len(edges) - 1
        budget = int(round_budget(np.array(words), self.rate))
        lengths = self.draw_lengths(noise, budget)
        sizes = np.ones(words - budget + len(lengths), np.int64)
        chosen = np.argsort(noise.grid(SLOTS, len(sizes))[0])[: len(lengths)]
        sizes[chosen] = lengths
        ends = np.cumsum(sizes)
        first, counts = edges[ends - sizes], edges[ends] - edges[ends - sizes]
        counts[chosen] = 1
        visible = tokens[ragged_arange(first, counts).clip(max=len(tokens) - 1)]
        visible[(np.cumsum(counts) - counts)[chosen]] = self.mask
        return visible

    def draw_lengths(self, noise: HashNoise, budget: int) -> IntArray:
        """Lengths of spans whose sum is the budget."""
        mean, count, total = self.mean_length, 8, np.zeros(1, np.int64)
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
