"""What is to be written, and what has been."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class SpecialTokens(NamedTuple):
    """Which ids of the target vocabulary play a role."""

    eos: int
    """Stands before the first symbol and behind the last."""
    forbidden: tuple[int, ...] = ()
    """Ids that are never written."""

    @staticmethod
    def from_vocabulary(vocabulary: Any) -> SpecialTokens:
        """A sentence ends with [SEP]; padding, [CLS] and [MASK] are not written, where they are
        other symbols.
        """
        never = {vocabulary.pad, vocabulary.cls, vocabulary.mask} - {vocabulary.sep}
        return SpecialTokens(vocabulary.sep, tuple(sorted(never)))


class DecodingPrompt(NamedTuple):
    """One sentence to write."""

    max_length: int
    """Most symbols before the end, those of the prefix included."""
    prefix: Sequence[int] = ()
    """Symbols that it begins with."""
    prompt: Sequence[int] = ()
    """Symbols that stand before it and are no part of it; as many for every sentence of a batch."""
    min_length: int = 0
    """Fewest symbols before the end."""
    number: int = 0
    """Which of all sentences it is: what is drawn for it depends on this."""


class Hypothesis(NamedTuple):
    """One sentence that was written."""

    tokens: list[int]
    """Without its end."""
    score: float
    """Sum of the log-probabilities, divided by a power of their number."""
    log_probabilities: list[float]
    """Of every symbol, and of the end where there is one."""


def make_hypothesis(tokens: Sequence[int], totals: Sequence[float], lenpen: float) -> Hypothesis:
    """From the sums of log-probabilities up to each symbol."""
    each = [b - a for a, b in zip([0.0, *totals], totals, strict=False)]
    score = totals[-1] / len(totals) ** lenpen if totals else 0.0
    return Hypothesis(list(tokens), score, each)
