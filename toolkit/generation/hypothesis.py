"""Prompts and hypotheses of text generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
