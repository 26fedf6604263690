"""Masking strategies: which tokens are selected for prediction, and what the model sees instead.

Every random number is a hash of (seed, epoch, sample id, draw, position), so masks depend neither
on the batch around a sentence, nor on padding, nor on the process that makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import (
    HIDDEN_POSITION,
    BoolArray,
    FloatArray,
    IntArray,
    UInt64,
    derive_seed,
    mix,
    ragged_arange,
    uniform,
)
from toolkit.common.errors import ToolkitError
from toolkit.data.samples.sequence_pairs import SentenceBatch
from toolkit.data.samples.statistics import (
    Collocations,
    count_tokens,
    find_collocations,
    hash_words,
)
from toolkit.data.storage.column_files import Column
from toolkit.data.tokenizers.vocabulary import Vocabulary

EVALUATION = -1  # in place of the epoch if masks must be the same every time
SELECT, DECIDE, REPLACE, SPANS, SAMPLE, MODE, UNITS = range(7)
"""Draws: each has its own random stream."""


@dataclass(frozen=True)
class HashNoise:
    """Uniform numbers in [0, 1) for a batch of samples, by draw and position."""

    seed: int
    epoch: int | None
    ids: IntArray

    @cached_property
    def _rows(self) -> UInt64:
        return mix(self.seed, EVALUATION if self.epoch is None else self.epoch, self.ids)

    def grid(self, draw: int, positions: int) -> FloatArray:
        """One number for each of this many positions in every sample, B x positions."""
        return uniform(mix(mix(self._rows, draw)[:, None], np.arange(positions)))

    def at(self, draw: int, rows: IntArray, positions: IntArray) -> FloatArray:
        """The numbers of `grid` at these positions only."""
        return uniform(mix(mix(self._rows, draw)[rows], positions))


class MaskedPositions(NamedTuple):
    """Selected positions, row by row."""

    rows: IntArray
    positions: IntArray
    decision_ids: IntArray
    """Positions of a row with equal ids share the draw that decides what the model sees."""


@dataclass(frozen=True, kw_only=True)
class MaskingOptions:
    """The options that strategies read."""

    tokens_per_sample: int
    rate: float
    span_max: int
    span_p: float
    weights: FloatArray | None = None
    """A weight of each id, for `frequency`; None: all alike."""
    collocations: Collocations | None = None
    """What `pmi` masks together, in addition to the tokens of a word."""


class MaskingContext(NamedTuple):
    """The input of a strategy."""

    sentences: SentenceBatch
    starts_word: BoolArray
    """True where a word starts, B x S."""
    noise: HashNoise
    options: MaskingOptions


@dataclass(frozen=True, kw_only=True)
class Masking(MaskingOptions):
    """A strategy by name, with its options, and what the model sees at selected positions."""

    strategy: str
    vocabulary: Vocabulary
    mask_token_rate: float
    random_token_rate: float

    def __post_init__(self) -> None:
        if self.strategy in ("whole_word", "span", "pmi") and not self.vocabulary.knows_words:
            raise ToolkitError(
                f"task.masking {self.strategy} requires a tokenizer whose pieces tell where words "
                f"start, but this tokenizer.json has no marks for it. Choose --task.masking exact, "
                f"or train the tokenizer with ByteLevel, Metaspace or end_of_word_suffix </w>."
            )

    def apply(self, sentences: SentenceBatch, noise: HashNoise) -> tuple[IntArray, MaskedPositions]:
        """Tokens as the model sees them, and the selected positions."""
        candidates = sentences.candidates
        starts = self.vocabulary.masked_words.starts(sentences.tokens)
        starts[:, 1:] |= ~candidates[:, :-1]
        context = MaskingContext(sentences, starts & candidates, noise, self)
        selected = MASKING_STRATEGIES[self.strategy](context)
        return self.replace(sentences.tokens, selected, noise), selected

    def replace(self, tokens: IntArray, selected: MaskedPositions, noise: HashNoise) -> IntArray:
        """[MASK] at 80 %, a random id at 10 %, the token itself at 10 % of the selected positions.

        Random ids are uniform over all V, special ones included (Chang et al. 2021, code).
        """
        rows, positions, decision_ids = selected
        draw = noise.at(DECIDE, rows, decision_ids)
        masked = draw < self.mask_token_rate
        random = ~masked & (draw < self.mask_token_rate + self.random_token_rate)
        visible = tokens.copy()
        ids = noise.at(REPLACE, rows[random], positions[random]) * len(self.vocabulary)
        visible[rows[random], positions[random]] = ids.astype(np.int64)
        visible[rows[masked], positions[masked]] = self.vocabulary.mask
        return visible


def bernoulli(c: MaskingContext) -> MaskedPositions:
    """Every token independently with probability `rate` (Chang et al. 2021, released code)."""
    candidates = c.sentences.candidates
    return _to_positions(candidates & (c.noise.grid(SELECT, candidates.shape[1]) < c.options.rate))


def exact(c: MaskingContext) -> MaskedPositions:
    """max(1, round(rate n)) of n tokens, all subsets equally likely (Devlin et al. 2019, code)."""
    return _take_smallest(c, c.noise.grid(SELECT, c.sentences.tokens.shape[1]))


def frequency(c: MaskingContext) -> MaskedPositions:
    """As many as by `exact`, drawn one after the other in proportion to their weights.

    These are f^-a for a token that occurs f times in the training text (Lample and Conneau 2019,
    section 3.3: a = 1/2). The same as the smallest -log(u) / w (Efraimidis and Spirakis 2006).
    """
    if c.options.weights is None:
        return exact(c)
    draws, tokens = c.noise.grid(SELECT, c.sentences.tokens.shape[1]), c.sentences.tokens
    return _take_smallest(c, -np.log1p(-draws) / c.options.weights[tokens])


def _take_smallest(c: MaskingContext, keys: FloatArray) -> MaskedPositions:
    """The max(1, round(rate n)) tokens of each sentence with the smallest keys."""
    candidates = c.sentences.candidates
    keys = np.where(candidates, keys, np.inf)
    budget = round_budget(candidates.sum(1), c.options.rate)
    last = np.take_along_axis(np.sort(keys, 1), np.maximum(budget, 1)[:, None] - 1, 1)
    return _to_positions(candidates & (keys <= last))


def whole_word(c: MaskingContext) -> MaskedPositions:
    """Words in random order, each whole if it fits into max(1, round(rate n)) tokens (Devlin et al.
    2019, code of May 2019); 80/10/10 token by token.
    """
    candidates = c.sentences.candidates
    batch, width = candidates.shape
    words = np.cumsum(c.starts_word, 1) - 1
    sizes = np.zeros((batch, width), np.int64)
    rows, positions = np.nonzero(candidates)
    np.add.at(sizes, (rows, words[rows, positions]), 1)
    keys = np.full((batch, width), 2.0)
    rows, positions = np.nonzero(c.starts_word)
    keys[rows, words[rows, positions]] = c.noise.at(SELECT, rows, positions)
    order = np.argsort(keys, 1)
    budget = round_budget(candidates.sum(1), c.options.rate)
    used, every_row = np.zeros(batch, np.int64), np.arange(batch)
    taken = np.zeros((batch, width), bool)
    for word in order.T:
        size = sizes[every_row, word]
        fits = (size > 0) & (used + size <= budget)
        taken[every_row, word] = fits
        used += size * fits
        if (used == budget).all():
            break
    return _to_positions(candidates & np.take_along_axis(taken, np.maximum(words, 0), 1))


def pmi(c: MaskingContext) -> MaskedPositions:
    """Collocations and other words in random order, as by `whole_word` (Levine et al. 2021).

    Of collocations that overlap one is chosen at random, unless one contains the other; the words
    that remain are units by themselves. 80/10/10 unit by unit.
    """
    starts = c.starts_word.copy()
    if c.options.collocations is not None:
        rows, positions = np.nonzero(starts)
        candidates = c.sentences.candidates
        starts_text = candidates[:, 1:] & ~candidates[:, :-1]  # position 0 is [CLS]
        flat = candidates[:, 1:]
        words = hash_words(c.sentences.tokens[:, 1:][flat], starts[:, 1:][flat], starts_text[flat])
        first, ends = c.options.collocations.find(words)
        order = np.argsort(c.noise.at(UNITS, rows[first], positions[first]))
        joined, taken = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        for start, end in zip(first[order].tolist(), ends[order].tolist(), strict=True):
            if not taken[start:end].any():
                taken[start:end] = joined[start + 1 : end] = True
        starts[rows[joined], positions[joined]] = False
    rows, positions, _ = whole_word(c._replace(starts_word=starts))
    unit = np.maximum.accumulate(np.where(starts, np.arange(starts.shape[1]), 0), 1)
    return MaskedPositions(rows, positions, unit[rows, positions])


def span(c: MaskingContext) -> MaskedPositions:
    """Runs of words until ceil(rate n) tokens are taken (Joshi et al. 2020, released code).

    A run starts at the word of a uniformly drawn token that is not taken yet, and its number of
    words follows `span_length_distribution`, up to a special token and the budget. Runs that touch
    share the draw of 80/10/10. Random tokens are uniform over the vocabulary, not the corpus.
    """
    candidates, longest = c.sentences.candidates, c.options.span_max
    budget = np.ceil(c.options.rate * candidates.sum(1)).astype(np.int64)
    mean_words = span_length_distribution(c.options.span_p, longest) @ np.arange(1, longest + 1)
    attempts = 4 + int(1.4 * budget.max() / mean_words)  # nearly always enough
    while (taken := _take_runs(c, budget, attempts)) is None:
        attempts *= 2
    rows, positions = np.divmod(taken, candidates.shape[1])
    starts = np.diff(taken, prepend=-2) != 1  # position 0 is [CLS]: no run reaches the next row
    run_starts = positions[starts][np.cumsum(starts) - 1]
    return MaskedPositions(rows, positions, run_starts)


def _take_runs(c: MaskingContext, budget: IntArray, attempts: int) -> IntArray | None:
    """Positions taken in this many attempts at once, rows back to back; None if a row has too few.
    One counts unless its anchor lies in an earlier run that counts.
    """
    anchors, starts, ends = _draw_runs(c, attempts)
    # earlier attempt, later attempt, sentence: the longest axis last
    anchor, start, end = (np.ascontiguousarray(edge.T) for edge in (anchors, starts, ends))
    covered = (start[:, None] <= anchor) & (anchor < end[:, None])
    covered &= np.tri(attempts, k=-1, dtype=bool).T[:, :, None]
    counts = np.ones(anchor.shape, bool)
    while True:
        after = np.logical_not(np.any(covered & counts[:, None], axis=0))
        if (after == counts).all():
            break
        counts = after
    sizes = ((ends - starts) * counts.T).ravel()
    taken = ragged_arange(starts.ravel(), sizes)
    first = np.empty(c.sentences.tokens.size, np.int64)
    first[taken[::-1]] = np.arange(len(taken))[::-1]  # of equal positions the first one is kept
    taken = taken[first[taken] == np.arange(len(taken))]
    rows = taken // c.sentences.tokens.shape[1]
    per_row = np.bincount(rows, minlength=len(budget))
    if (per_row < budget).any():
        return None
    return np.sort(taken[ragged_arange(0, per_row) < budget[rows]])


def _draw_runs(c: MaskingContext, attempts: int) -> tuple[IntArray, IntArray, IntArray]:
    """Anchors, starts and ends of runs, B x attempts, as flat indices into B x S."""
    candidates, size = c.sentences.candidates.ravel(), c.sentences.candidates.size
    flat, counts = np.flatnonzero(candidates), c.sentences.candidates.sum(1)
    drawn = c.noise.grid(SPANS, attempts) * counts[:, None]
    token = drawn.astype(np.int64)
    anchors = np.append(flat, 0)[token + (np.cumsum(counts) - counts)[:, None]]
    # the fractional part is an independent uniform number
    lengths = draw_span_lengths(drawn - token, c.options.span_p, c.options.span_max)
    starts = np.append(np.flatnonzero(c.starts_word), size)
    words = np.cumsum(c.starts_word)[anchors] - 1
    walls = np.append(np.flatnonzero(~candidates), size)
    wall = walls[np.cumsum(~candidates)[anchors]]  # the next special token or padding
    ends = np.minimum(starts[np.minimum(words + lengths, len(starts) - 1)], wall)
    empty = counts[:, None] == 0
    return anchors, np.where(empty, 0, starts[words]), np.where(empty, 0, ends)


def span_length_distribution(p: float, longest: int) -> FloatArray:
    """P(ell) ~ p (1 - p)^(ell - 1) for ell = 1 .. longest, renormalized (Joshi et al. 2020)."""
    weights = p * (1 - p) ** np.arange(longest)
    return weights / weights.sum()


def draw_span_lengths(draws: FloatArray, p: float, longest: int) -> IntArray:
    """Lengths by that distribution, from uniform numbers."""
    edges = np.cumsum(span_length_distribution(p, longest))[:-1]
    return 1 + np.searchsorted(edges, draws, side="right")


def electra(c: MaskingContext) -> MaskedPositions:
    """min(limit, max(1, round(rate n))) draws with replacement (Clark et al. 2020, code).

    n counts all tokens of the sentence, including special ones; limit is (rate + 0.005) T, rounded
    down. A position drawn twice is a target twice, and masked if either draw says so.
    """
    candidates = c.sentences.candidates
    limit = int((c.options.rate + 0.005) * c.options.tokens_per_sample)
    counts = candidates.sum(1)
    budget = np.minimum(max(1, limit), round_budget(c.sentences.lengths, c.options.rate))
    budget *= counts > 0
    positions = np.argsort(~candidates, 1, kind="stable")
    rows = np.repeat(np.arange(len(counts)), budget)
    draw = ragged_arange(0, budget)
    drawn = (c.noise.at(SELECT, rows, draw) * counts[rows]).astype(np.int64)
    return MaskedPositions(rows, positions[rows, drawn], draw)


MASKING_STRATEGIES: dict[str, Callable[[MaskingContext], MaskedPositions]] = {
    "bernoulli": bernoulli,
    "exact": exact,
    "whole_word": whole_word,
    "frequency": frequency,
    "pmi": pmi,
    "span": span,
    "electra": electra,
}


def measure_text(
    column: Column, vocabulary: Vocabulary, strategy: str, power: float, coverage: float
) -> dict[str, Any]:
    """Options of a strategy that knows its training text; without them it selects all alike."""
    if strategy == "frequency":
        counts = count_tokens(column, len(vocabulary)).clip(min=1)
        return {"weights": counts.astype(np.float64) ** -power}
    if strategy == "pmi":
        return {"collocations": find_collocations(column, vocabulary.masked_words, coverage)}
    return {}


def _to_positions(selected: BoolArray) -> MaskedPositions:
    rows, positions = np.nonzero(selected)
    return MaskedPositions(rows, positions, positions)


def round_budget(counts: IntArray, rate: float) -> IntArray:
    """max(1, round(rate n)), and 0 if n is 0."""
    return np.minimum(counts, np.maximum(1, np.rint(rate * counts).astype(np.int64)))


POSITIONS = 0x706F73
"""Separates the random stream of positions from that of tokens."""
ORDERS = 1 << 20
"""Draws for the order of shuffled runs start here, after those of the spans."""


@dataclass(frozen=True, kw_only=True)
class PositionMasking(MaskingOptions):
    """Runs of positions until ceil(rate n) are selected, as in SpanBERT, without word boundaries.

    Runs that touch are merged. Then a fraction `hidden_rate` of them is hidden, `shuffled_rate`
    put in another order, and the rest left as they are; all of them are to be predicted.
    """

    hidden_rate: float
    shuffled_rate: float
    random_below: int | None
    """A shuffled run of one gets a random position below this; None: one of its sentence."""

    def apply(self, sentences: SentenceBatch, noise: HashNoise) -> tuple[IntArray, MaskedPositions]:
        """Position ids as the model sees them, B x S, and the selected positions."""
        noise = replace(noise, seed=derive_seed(noise.seed, POSITIONS))
        selected = span(MaskingContext(sentences, sentences.candidates, noise, self))
        visible = np.tile(np.arange(sentences.tokens.shape[1]), (len(sentences.tokens), 1))
        draw = noise.at(DECIDE, selected.rows, selected.decision_ids)
        hidden = draw < self.hidden_rate
        shuffled = ~hidden & (draw < self.hidden_rate + self.shuffled_rate)
        visible[selected.rows[hidden], selected.positions[hidden]] = HIDDEN_POSITION
        rows, positions, decision_ids = (part[shuffled] for part in selected)
        runs = np.stack([rows, decision_ids])
        _, run, sizes = np.unique(runs, axis=1, return_inverse=True, return_counts=True)
        run = run.reshape(-1)
        below = sentences.lengths[rows] if self.random_below is None else self.random_below
        anywhere = (noise.at(REPLACE, rows, positions) * below).astype(np.int64)
        shuffled_runs = shuffle_runs(rows, positions, run, sizes, noise)
        visible[rows, positions] = np.where(sizes[run] == 1, anywhere, shuffled_runs)
        return visible, selected


def shuffle_runs(
    rows: IntArray, positions: IntArray, run: IntArray, sizes: IntArray, noise: HashNoise
) -> IntArray:
    """Each run's positions in a uniformly random order other than the identity. `run` is the number
    of each position's run, from 0; a run of one keeps its position.
    """
    order, draw, unchanged = positions.copy(), ORDERS, sizes[run] > 1
    while unchanged.any():
        left, at = run[unchanged], positions[unchanged]
        keys = noise.at(draw, rows[unchanged], at)
        order[unchanged] = at[np.lexsort((keys, left))]
        moved = np.zeros(len(sizes), bool)
        moved[left[order[unchanged] != at]] = True
        unchanged &= ~moved[run]
        draw += 1
    return order
