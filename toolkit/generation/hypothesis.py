"""Prompts, finished hypotheses, and the unfinished hypotheses of a batch of sentences.

N sentences   G groups   K hypotheses of a group   C candidates of a group   T tokens generated
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.data.tokenizers.vocabulary import Vocabulary


class SpecialTokens(NamedTuple):
    """Ids of the target vocabulary with a special role."""

    eos: int
    """Precedes the first token and follows the last."""
    forbidden: tuple[int, ...] = ()
    """Ids that are never generated."""

    @staticmethod
    def from_vocabulary(vocabulary: Vocabulary) -> SpecialTokens:
        """[SEP] is the end symbol; padding, [CLS] and [MASK] are forbidden if they are
        different tokens.
        """
        never = {vocabulary.pad, vocabulary.cls, vocabulary.mask} - {vocabulary.sep}
        return SpecialTokens(vocabulary.sep, tuple(sorted(never)))


class DecodingPrompt(NamedTuple):
    """Limits and given tokens of one sentence to generate."""

    max_length: int
    """Maximum number of tokens before the end symbol, prefix included."""
    prefix: Sequence[int] = ()
    """Tokens that it starts with."""
    prompt: Sequence[int] = ()
    """Tokens that precede it; equally many for all sentences of a batch."""
    min_length: int = 0
    """Minimum number of tokens before the end symbol."""
    number: int = 0
    """Index among all sentences; seeds its samples."""


class Hypothesis(NamedTuple):
    """One generated sentence."""

    tokens: list[int]
    """Without the end symbol."""
    score: float
    """Sum of the log-probabilities divided by their number ** lenpen."""
    log_probabilities: list[float]
    """Of every token, and of the end symbol if there is one."""


def make_hypothesis(tokens: Sequence[int], totals: Sequence[float], lenpen: float) -> Hypothesis:
    """`totals` are the sums of log-probabilities up to each token."""
    each = [b - a for a, b in zip([0.0, *totals], totals, strict=False)]
    score = totals[-1] / len(totals) ** lenpen if totals else 0.0
    return Hypothesis(list(tokens), score, each)


class BeamState(NamedTuple):
    """Tokens and log-probabilities; -inf marks unused hypotheses."""

    sentences: IntArray
    """(N), indices of the sentences."""
    tokens: IntArray
    """(N, G, K, T)"""
    totals: FloatArray
    """(N, G, K, T), log-probabilities up to each token."""

    @staticmethod
    def initial(sentences: int, groups: int) -> BeamState:
        """One empty hypothesis per group."""
        shape = (sentences, groups, 1, 0)
        return BeamState(np.arange(sentences), np.zeros(shape, np.int64), np.zeros(shape))

    @property
    def length(self) -> int:
        return self.tokens.shape[3]

    @property
    def current_totals(self) -> FloatArray:
        """(N, G, K), of all tokens."""
        return self.totals[..., -1] if self.length else np.zeros(self.tokens.shape[:3])

    def extend(self, parents: IntArray, tokens: IntArray, totals: FloatArray) -> BeamState:
        """(N, G, C): candidate c is hypothesis parents[c] with one more token."""
        index = parents[..., None]
        before = np.take_along_axis(self.tokens, index, 2)
        totals_before = np.take_along_axis(self.totals, index, 2)
        return BeamState(
            self.sentences,
            np.concatenate([before, tokens[..., None]], 3),
            np.concatenate([totals_before, totals[..., None]], 3),
        )

    def select(self, sentences: IntArray, candidates: IntArray, unused: BoolArray) -> BeamState:
        """(N, G, K): of these sentences these candidates; those `unused` get a total of -inf."""
        index = candidates[..., None]
        totals = np.take_along_axis(self.totals[sentences], index, 2)
        totals[..., -1][unused] = -np.inf
        tokens = np.take_along_axis(self.tokens[sentences], index, 2)
        return BeamState(self.sentences[sentences], tokens, totals)
