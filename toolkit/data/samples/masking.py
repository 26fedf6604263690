"""Which tokens are hidden from the model, and what it sees in their place: one law, one class.

Every number is a hash of (seed, epoch, sample id, draw, place), so that masks depend neither on
the batch around a sentence, nor on padding, nor on the process that makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolkit.common.random_hash import UInt64, mix, uniform
from toolkit.data.ragged import ragged_arange
from toolkit.data.samples.text_samples import Flags, Numbers, SentenceBatch
from toolkit.data.tokenizers.vocabulary import Vocabulary

Reals = npt.NDArray[np.float64]
EVALUATION = -1  # stands for the epoch where masks must be the same every time
SELECT, DECIDE, REPLACE, SPANS, SAMPLE = range(5)  # draws that must not share their randomness


@dataclass(frozen=True)
class HashNoise:
    """Uniform numbers in [0, 1) for a batch of samples, by draw and place."""

    seed: int
    epoch: int | None
    ids: Numbers

    @cached_property
    def _rows(self) -> UInt64:
        epoch = EVALUATION if self.epoch is None else self.epoch
        return mix(self.seed, epoch, self.ids)

    def grid(self, draw: int, places: int) -> Reals:
        """One number for each of so many places in every sample, B x places."""
        return uniform(mix(mix(self._rows, draw)[:, None], np.arange(places)))

    def at(self, draw: int, rows: Numbers, places: Numbers) -> Reals:
        """The same numbers as `grid`, at chosen places only."""
        return uniform(mix(mix(self._rows, draw)[rows], places))


class MaskedPositions(NamedTuple):
    """Selected places, row by row."""

    rows: Numbers
    positions: Numbers
    decision_ids: Numbers
    """Places that share a number here share the draw that decides what is shown there."""


@runtime_checkable
class MaskingOptions(Protocol):
    """The numbers that laws ask for."""

    @property
    def rate(self) -> float: ...
    @property
    def span_max(self) -> int: ...
    @property
    def span_p(self) -> float: ...
    @property
    def tokens_per_sample(self) -> int: ...


class MaskingContext(NamedTuple):
    """What a law is told."""

    sentences: SentenceBatch
    starts_word: Flags
    """True where a word begins, B x S."""
    noise: HashNoise
    options: MaskingOptions


@dataclass(frozen=True, kw_only=True)
class Masking:
    """A law by name, with its numbers, and what is shown at the places that it chooses."""

    strategy: str
    vocabulary: Vocabulary
    tokens_per_sample: int
    rate: float
    mask_token_rate: float
    random_token_rate: float
    span_max: int
    span_p: float

    def apply(self, sentences: SentenceBatch, noise: HashNoise) -> tuple[Numbers, MaskedPositions]:
        """Tokens as the model sees them, and the chosen places."""
        candidates = sentences.candidates
        starts = self.vocabulary.starts_word[sentences.tokens]
        starts[:, 1:] |= ~candidates[:, :-1]
        chosen = MASKING_STRATEGIES[self.strategy](
            MaskingContext(sentences, starts & candidates, noise, self)
        )
        return self._show(sentences.tokens, chosen, noise), chosen

    def _show(self, tokens: Numbers, chosen: MaskedPositions, noise: HashNoise) -> Numbers:
        """[MASK] at 80 %, a random id at 10 %, the token itself at 10 % of the chosen places.

        Random ids are uniform over all V, special ones included (Chang et al. 2021, code).
        """
        rows, places, decisions = chosen
        draw = noise.at(DECIDE, rows, decisions)
        hidden = draw < self.mask_token_rate
        random = ~hidden & (draw < self.mask_token_rate + self.random_token_rate)
        shown = tokens.copy()
        ids = noise.at(REPLACE, rows[random], places[random]) * len(self.vocabulary)
        shown[rows[random], places[random]] = ids.astype(np.int64)
        shown[rows[hidden], places[hidden]] = self.vocabulary.mask
        return shown


def bernoulli(c: MaskingContext) -> MaskedPositions:
    """Every token on its own with probability `rate` (Chang et al. 2021, released code)."""
    candidates = c.sentences.candidates
    return _chosen(candidates & (c.noise.grid(SELECT, candidates.shape[1]) < c.options.rate))


def exact(c: MaskingContext) -> MaskedPositions:
    """max(1, round(rate n)) of n tokens, all sets alike (Devlin et al. 2019, released code)."""
    candidates = c.sentences.candidates
    keys = np.where(candidates, c.noise.grid(SELECT, candidates.shape[1]), 2.0)
    budget = _rounded(candidates.sum(1), c.options.rate)
    last = np.take_along_axis(np.sort(keys, 1), np.maximum(budget, 1)[:, None] - 1, 1)
    return _chosen(candidates & (keys <= last))


def whole_word(c: MaskingContext) -> MaskedPositions:
    """Words in random order, each taken whole if it fits into max(1, round(rate n)) tokens.

    Whole word masking of Devlin et al. (2019), code of May 2019; 80/10/10 token by token.
    """
    candidates = c.sentences.candidates
    batch, width = candidates.shape
    words = np.cumsum(c.starts_word, 1) - 1
    sizes = np.zeros((batch, width), np.int64)
    rows, places = np.nonzero(candidates)
    np.add.at(sizes, (rows, words[rows, places]), 1)
    keys = np.full((batch, width), 2.0)
    rows, places = np.nonzero(c.starts_word)
    keys[rows, words[rows, places]] = c.noise.at(SELECT, rows, places)
    order = np.argsort(keys, 1)
    budget = _rounded(candidates.sum(1), c.options.rate)
    used, every = np.zeros(batch, np.int64), np.arange(batch)
    taken = np.zeros((batch, width), bool)
    for word in order.T:
        size = sizes[every, word]
        fits = (size > 0) & (used + size <= budget)
        taken[every, word] = fits
        used += size * fits
        if (used == budget).all():
            break
    return _chosen(candidates & np.take_along_axis(taken, np.maximum(words, 0), 1))


def span(c: MaskingContext) -> MaskedPositions:
    """Runs of words until ceil(rate n) tokens are taken (Joshi et al. 2020, released code).

    A run begins at the word of a uniformly drawn token that is not taken yet and has ell words by
    `span_length_distribution`; it stops at a special symbol and when the budget is full. Runs
    that touch are one:
    they share the draw of 80/10/10. Replacements are uniform over the vocabulary, not over the
    corpus as there.
    """
    candidates = c.sentences.candidates
    budget = np.ceil(c.options.rate * candidates.sum(1)).astype(np.int64)
    words = span_length_distribution(c.options.span_p, c.options.span_max) @ np.arange(
        1, c.options.span_max + 1
    )
    attempts = 4 + int(1.4 * budget.max() / words)  # nearly always enough
    while (found := _runs(c, budget, attempts)) is None:
        attempts *= 2
    width = candidates.shape[1]
    rows, places = np.divmod(found, width)
    begins = np.diff(found, prepend=-2) != 1  # place 0 is [CLS]: no run reaches into a next row
    runs = places[begins][np.cumsum(begins) - 1]
    return MaskedPositions(rows, places, runs)


def _runs(c: MaskingContext, budget: Numbers, attempts: int) -> Numbers | None:
    """Places taken in so many attempts, rows back to back; None where one has too few of them.

    Attempts are made one after the other, but looked at all at once: an attempt counts unless its
    anchor lies in an earlier run that counts, which settles within a few rounds.
    """
    anchors, begins, ends = _attempts(c, attempts)
    # earlier attempt, later attempt, sentence: the longest axis last
    anchor, begin, end = (np.ascontiguousarray(edge.T) for edge in (anchors, begins, ends))
    covered = (begin[:, None] <= anchor) & (anchor < end[:, None])
    covered &= np.tri(attempts, k=-1, dtype=bool).T[:, :, None]
    counts = np.ones(anchor.shape, bool)
    while True:
        after = np.logical_not(np.any(covered & counts[:, None], axis=0))
        if (after == counts).all():
            break
        counts = after
    sizes = ((ends - begins) * counts.T).ravel()
    taken = ragged_arange(begins.ravel(), sizes)
    first = np.empty(c.sentences.tokens.size, np.int64)
    first[taken[::-1]] = np.arange(len(taken))[::-1]  # of equal places the first one is kept
    taken = taken[first[taken] == np.arange(len(taken))]
    rows = taken // c.sentences.tokens.shape[1]
    found = np.bincount(rows, minlength=len(budget))
    if (found < budget).any():
        return None
    return np.sort(taken[ragged_arange(0, found) < budget[rows]])


def _attempts(c: MaskingContext, attempts: int) -> tuple[Numbers, Numbers, Numbers]:
    """Anchors and the runs that they begin, B x attempts; places are numbered through all rows."""
    candidates, size = c.sentences.candidates.ravel(), c.sentences.candidates.size
    inside, counts = np.flatnonzero(candidates), c.sentences.candidates.sum(1)
    drawn = c.noise.grid(SPANS, attempts) * counts[:, None]
    which = drawn.astype(np.int64)
    anchors = np.append(inside, 0)[which + (np.cumsum(counts) - counts)[:, None]]
    # what is behind the decimal point is a uniform number of its own
    lengths = draw_span_lengths(drawn - which, c.options.span_p, c.options.span_max)
    starts = np.append(np.flatnonzero(c.starts_word), size)
    words = np.cumsum(c.starts_word)[anchors] - 1
    walls = np.append(np.flatnonzero(~candidates), size)
    wall = walls[np.cumsum(~candidates)[anchors]]  # the next special symbol or padding
    ends = np.minimum(starts[np.minimum(words + lengths, len(starts) - 1)], wall)
    empty = counts[:, None] == 0
    return anchors, np.where(empty, 0, starts[words]), np.where(empty, 0, ends)


def span_length_distribution(p: float, longest: int) -> Reals:
    """P(ell) ~ p (1 - p)^(ell - 1) for ell = 1 .. longest, renormalized (Joshi et al. 2020)."""
    weights = p * (1 - p) ** np.arange(longest)
    return weights / weights.sum()


def draw_span_lengths(draws: Reals, p: float, longest: int) -> Numbers:
    """Lengths by that law from uniform numbers."""
    return 1 + np.searchsorted(_edges(p, longest), draws, side="right")


@cache
def _edges(p: float, longest: int) -> Reals:
    return np.cumsum(span_length_distribution(p, longest))[:-1]


def electra(c: MaskingContext) -> MaskedPositions:
    """min(most, max(1, round(rate n))) draws with replacement (Clark et al. 2020, code).

    n counts all tokens of the sentence, special ones too; most is (rate + 0.005) T rounded down.
    A place that was drawn twice is a target twice, and hidden if either draw says so.
    """
    candidates = c.sentences.candidates
    most = int((c.options.rate + 0.005) * c.options.tokens_per_sample)
    counts = candidates.sum(1)
    wanted = np.minimum(max(1, most), _rounded(c.sentences.lengths, c.options.rate)) * (counts > 0)
    places = np.argsort(~candidates, 1, kind="stable")
    rows = np.repeat(np.arange(len(counts)), wanted)
    draw = ragged_arange(0, wanted)
    drawn = (c.noise.at(SELECT, rows, draw) * counts[rows]).astype(np.int64)
    return MaskedPositions(rows, places[rows, drawn], draw)


MASKING_STRATEGIES: dict[str, Callable[[MaskingContext], MaskedPositions]] = {
    "bernoulli": bernoulli,
    "exact": exact,
    "whole_word": whole_word,
    "span": span,
    "electra": electra,
}


def _chosen(selected: Flags) -> MaskedPositions:
    rows, places = np.nonzero(selected)
    return MaskedPositions(rows, places, places)


def _rounded(counts: Numbers, rate: float) -> Numbers:
    """max(1, round(rate n)), and 0 where n is."""
    return np.minimum(counts, np.maximum(1, np.rint(rate * counts).astype(np.int64)))
