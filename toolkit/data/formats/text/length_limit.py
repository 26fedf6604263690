"""Length limit: items with too many tokens are left out, truncated or split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.ragged import ragged_arange


class LimitedItems(NamedTuple):
    """Items within the limit."""

    ids: IntArray
    lengths: IntArray
    sources: IntArray
    """Index of the original item of each."""
    overlength: int
    """Number of items that exceeded the limit."""
    lost: int
    """Number of dropped tokens."""


def apply_length_limit(
    ids: IntArray, lengths: IntArray, limit: int, policy: str, starts_word: BoolArray
) -> LimitedItems:
    """Limit items, whose ids are back to back, to `limit` tokens by skip, truncate or split."""
    long = lengths > limit
    overlength, sources = int(long.sum()), np.arange(len(lengths))
    if overlength == 0:
        return LimitedItems(ids, lengths, sources, 0, 0)
    if policy == "split":
        pieces = _split(ids, lengths, limit, starts_word)
        counts = np.array([len(sizes) for sizes in pieces], np.int64)
        piece_lengths = np.array([size for sizes in pieces for size in sizes], np.int64)
        return LimitedItems(ids, piece_lengths, np.repeat(sources, counts), overlength, 0)
    kept_lengths = np.where(long, 0 if policy == "skip" else limit, lengths)
    kept = ids[ragged_arange(0, lengths) < np.repeat(kept_lengths, lengths)]
    stays = ~long if policy == "skip" else np.ones(len(long), bool)
    lost = len(ids) - len(kept)
    return LimitedItems(kept, kept_lengths[stays], sources[stays], overlength, lost)


def _split(ids: IntArray, lengths: IntArray, limit: int, starts_word: BoolArray) -> list[list[int]]:
    """Lengths of the pieces of each item: maximal, and cut before a word if possible."""
    pieces, ends = [], np.cumsum(lengths)
    for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
        sizes, start = [], end - length
        while end - start > limit:
            words = np.flatnonzero(starts_word[ids[start + 1 : start + limit + 1]])
            sizes.append(int(words[-1]) + 1 if len(words) else limit)
            start += sizes[-1]
        pieces.append([*sizes, end - start])
    return pieces
