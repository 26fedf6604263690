"""Items with more tokens than wanted: left out, shortened or cut in several."""

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
    """Which of the items before each comes from."""
    overlength: int
    """Items that were too long."""
    lost: int
    """Tokens that are gone."""


def apply_length_limit(
    ids: IntArray, lengths: IntArray, limit: int, policy: str, starts_word: BoolArray
) -> LimitedItems:
    """Items of ids back to back, each with at most `limit` tokens by skip, truncate or split."""
    long = lengths > limit
    changed, every = int(long.sum()), np.arange(len(lengths))
    if changed == 0:
        return LimitedItems(ids, lengths, every, 0, 0)
    if policy == "split":
        shares = _split(ids, lengths, limit, starts_word)
        counts = np.array([len(share) for share in shares], np.int64)
        whole = np.array([size for share in shares for size in share], np.int64)
        return LimitedItems(ids, whole, np.repeat(every, counts), changed, 0)
    most = np.where(long, 0 if policy == "skip" else limit, lengths)
    kept = ids[ragged_arange(0, lengths) < np.repeat(most, lengths)]
    stays = ~long if policy == "skip" else np.ones(len(long), bool)
    return LimitedItems(kept, most[stays], every[stays], changed, len(ids) - len(kept))


def _split(ids: IntArray, lengths: IntArray, limit: int, starts_word: BoolArray) -> list[list[int]]:
    """Lengths that each item is cut into: as long as may be, cut before a word where one begins."""
    shares, ends = [], np.cumsum(lengths)
    for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
        share, begin = [], end - length
        while end - begin > limit:
            words = np.flatnonzero(starts_word[ids[begin + 1 : begin + limit + 1]])
            share.append(int(words[-1]) + 1 if len(words) else limit)
            begin += share[-1]
        shares.append([*share, end - begin])
    return shares
