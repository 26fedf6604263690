"""[CLS] a [SEP] and [CLS] a [SEP] b [SEP] with token types 0 and 1 (Devlin et al. 2019)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.data.storage.columns import Column
from toolkit.data.tokenizers.vocabulary import Vocabulary

SPECIAL_OF_SINGLE, SPECIAL_OF_PAIR = 2, 3
"""[CLS] and [SEP]; a pair has another [SEP] at its end."""


class TokenTexts(NamedTuple):
    """Tokens of several texts back to back, and the number of each."""

    ids: IntArray
    lengths: IntArray


class PairBatch(NamedTuple):
    """A batch of texts or pairs with their special tokens, B x S."""

    tokens: IntArray
    segments: IntArray
    """0 up to the first [SEP], 1 after it; 0 at padding."""
    padding: BoolArray
    lengths: IntArray
    """Tokens of each row, special tokens included."""
    second_starts: IntArray
    """Position of the second text's first token in each row."""


def truncate_longest_first(
    first: IntArray, second: IntArray, limit: int
) -> tuple[IntArray, IntArray]:
    """Lengths of pairs cut to `limit` tokens, one by one off the longer (Devlin et al., code).

    Of equally long ones off the second. A text of at most half keeps all it has, and two longer
    ones keep half each, the first one more if `limit` is odd.
    """
    kept = np.minimum(first, np.maximum(limit - second, -(-limit // 2)))
    return kept, np.minimum(second, limit - kept)


def join_pairs(first: TokenTexts, second: TokenTexts | None, vocabulary: Vocabulary) -> PairBatch:
    """Rows as long as the longest. With `second`, pairs, even if one of them is empty."""
    rows = np.arange(len(first.lengths))
    added = np.zeros_like(rows) if second is None else second.lengths + 1
    lengths = first.lengths + SPECIAL_OF_SINGLE + added
    width = int(lengths.max(initial=1))
    starts, second_starts = rows * width, first.lengths + SPECIAL_OF_SINGLE
    tokens = np.full(len(rows) * width, vocabulary.pad, np.int64)
    tokens[starts] = vocabulary.cls
    tokens[ragged_arange(starts + 1, first.lengths)] = first.ids
    tokens[starts + second_starts - 1] = vocabulary.sep
    if second is not None:
        tokens[ragged_arange(starts + second_starts, second.lengths)] = second.ids
        tokens[starts + lengths - 1] = vocabulary.sep
    positions = np.arange(width)
    inside = positions < lengths[:, None]
    segments = (inside & (positions >= second_starts[:, None])).astype(np.int64)
    return PairBatch(tokens.reshape(len(rows), width), segments, ~inside, lengths, second_starts)


class TokenColumn:
    """The items of a column, read by number."""

    def __init__(self, column: Column) -> None:
        self._column = column
        offsets = column.part_offsets.tolist()
        starts = [p.offsets[:-1] + o for p, o in zip(column.parts, offsets, strict=False)]
        self._starts: IntArray = np.concatenate(starts)
        self.lengths: IntArray = np.concatenate([np.diff(p.offsets) for p in column.parts])

    def take(self, ids: IntArray, lengths: IntArray, skipped: IntArray | None = None) -> TokenTexts:
        """This many tokens of some items: the first ones, or those after the skipped ones."""
        full = np.flatnonzero(lengths)
        if len(full) == 0:
            return TokenTexts(np.zeros(0, np.int64), lengths)
        item_starts, counts = self._starts[ids[full]], lengths[full]
        starts = item_starts if skipped is None else item_starts + skipped[full]
        positions = np.arange(counts.max())
        last = (starts + counts - 1)[:, None]
        grid = np.minimum(starts[:, None] + positions, last)
        values = self._column.take(grid, item_starts, item_starts + self.lengths[ids[full]])
        return TokenTexts(values[positions < counts[:, None]], lengths)
