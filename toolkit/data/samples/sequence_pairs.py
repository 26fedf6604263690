"""[CLS] a [SEP] and [CLS] a [SEP] b [SEP] with token types 0 and 1 (Devlin et al. 2019)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.ragged import ragged_arange
from toolkit.data.storage.columns import Column
from toolkit.data.tokenizers.vocabulary import Vocabulary

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
SPECIAL_OF_SINGLE, SPECIAL_OF_PAIR = 2, 3
"""[CLS] and [SEP]; and one more behind the second text."""


class TokenTexts(NamedTuple):
    """Tokens of several texts back to back, and how many each has."""

    ids: Numbers
    lengths: Numbers


class PairBatch(NamedTuple):
    """A batch of texts or pairs with their special symbols, B x S."""

    tokens: Numbers
    segments: Numbers
    """0 up to the first [SEP], 1 behind it; 0 at padding."""
    padding: Flags
    lengths: Numbers
    """Tokens of each row, special ones included."""
    second_starts: Numbers
    """The place of the second text's first token in each row."""


def truncate_longest_first(first: Numbers, second: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """What is left of pairs cut to `most` tokens, one by one off the longer (Devlin et al., code).

    Of equally long ones off the second. So a text of at most half keeps all it has, and two longer
    ones end up with half each, the first with one more where `most` is odd.
    """
    kept = np.minimum(first, np.maximum(most - second, -(-most // 2)))
    return kept, np.minimum(second, most - kept)


def join_pairs(first: TokenTexts, second: TokenTexts | None, words: Vocabulary) -> PairBatch:
    """Rows as long as the longest; with `second`, pairs, though one may have no tokens in it."""
    rows = np.arange(len(first.lengths))
    behind = np.zeros_like(rows) if second is None else second.lengths + 1
    lengths = first.lengths + SPECIAL_OF_SINGLE + behind
    width = int(lengths.max(initial=1))
    begins, seconds = rows * width, first.lengths + SPECIAL_OF_SINGLE
    tokens = np.full(len(rows) * width, words.pad, np.int64)
    tokens[begins] = words.cls
    tokens[ragged_arange(begins + 1, first.lengths)] = first.ids
    tokens[begins + seconds - 1] = words.sep
    if second is not None:
        tokens[ragged_arange(begins + seconds, second.lengths)] = second.ids
        tokens[begins + lengths - 1] = words.sep
    places = np.arange(width)
    inside = places < lengths[:, None]
    segments = (inside & (places >= seconds[:, None])).astype(np.int64)
    return PairBatch(tokens.reshape(len(rows), width), segments, ~inside, lengths, seconds)


class TokenColumn:
    """The items of a column, to be read by number."""

    def __init__(self, column: Column) -> None:
        self._column = column
        firsts = column.part_offsets.tolist()
        begins = [p.offsets[:-1] + f for p, f in zip(column.parts, firsts, strict=False)]
        self._begins: Numbers = np.concatenate(begins)
        self.lengths: Numbers = np.concatenate([np.diff(p.offsets) for p in column.parts])

    def take(self, ids: Numbers, lengths: Numbers, skipped: Numbers | None = None) -> TokenTexts:
        """So many tokens of some items: the first, or those behind as many as are skipped."""
        full = np.flatnonzero(lengths)
        if len(full) == 0:
            return TokenTexts(np.zeros(0, np.int64), lengths)
        firsts, counts = self._begins[ids[full]], lengths[full]
        begins = firsts if skipped is None else firsts + skipped[full]
        places = np.arange(counts.max())
        last = (begins + counts - 1)[:, None]
        grid = np.minimum(begins[:, None] + places, last)
        found = self._column.take(grid, firsts, firsts + self.lengths[ids[full]])
        return TokenTexts(found[places < counts[:, None]], lengths)
