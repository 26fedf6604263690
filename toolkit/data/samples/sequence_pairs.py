"""[CLS] a [SEP] and [CLS] a [SEP] b [SEP] with token types 0 and 1 (Devlin et al. 2019).

Texts and pairs of examples; and ELECTRA's samples: items packed to a target length and assigned to
two segments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, FloatArray, IntArray, mix, ragged_arange, uniform
from toolkit.data.samples.text_samples import SentenceBatch, describe_truncation
from toolkit.data.storage.columns import Column, ColumnPart
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


def list_item_starts(column: Column) -> IntArray:
    """First element of each item of a column, over all parts."""
    offsets = column.part_offsets.tolist()
    starts = [p.offsets[:-1] + o for p, o in zip(column.parts, offsets, strict=False)]
    return np.concatenate(starts)


class TokenColumn:
    """The items of a column, read by number."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._starts = list_item_starts(column)
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


STREAM = 0x454C4543  # separates these draws from those of masks
TARGET, LENGTH, SINGLE, COIN = range(4)
SHORT_RATE, SINGLE_RATE, MIN_TARGET = 0.05, 0.1, 5


class PackedExamples(NamedTuple):
    """The examples of a part: consecutive items, some of them in the second segment."""

    starts: IntArray
    """First item of each example; it ends where the next one starts."""
    in_second_segment: BoolArray
    """For every item."""
    first_tokens: IntArray
    """Tokens in the first segment of each example, before truncation."""


def pack_examples(part: ColumnPart, tokens_per_sample: int, first_item: int) -> PackedExamples:
    """Items up to a target of T tokens, or with 5 % uniform in 5 .. T (Clark et al. 2020, code).

    An example ends with the item that reaches the target, or with its document. With 10 % it is
    one segment. Otherwise an item goes to the first segment if that is empty, or stays below
    (target - 3) // 2 with it, or, half of the time, if it is the one that exceeds this while the
    second is empty; else to the second. So a later short item may precede an earlier long one.

    Draws are a hash of the example's first item (its number in the column), so examples are the
    same in every run. Unlike there, where the first target of a file list is always T.
    """
    offsets, count = part.offsets, part.items
    items = np.arange(first_item, first_item + count)
    widths = tokens_per_sample + 1 - MIN_TARGET
    short = MIN_TARGET + (_draw(items, LENGTH) * widths).astype(np.int64)
    targets = np.where(_draw(items, TARGET) < SHORT_RATE, short, tokens_per_sample)
    target_ends = np.searchsorted(offsets, offsets[:-1] + targets)
    edges = np.union1d(part.document_starts, [0, count])
    document_ends = edges[np.searchsorted(edges, np.arange(count), side="right")]
    starts = _follow(np.minimum(target_ends, document_ends))
    halves = (targets[starts] - 3) // 2
    single = _draw(items[starts], SINGLE) < SINGLE_RATE
    limits = np.where(single, np.iinfo(np.int64).max // 2, halves)
    coins = _draw(items, COIN) < 0.5
    in_second, first_tokens = _assign_segments(np.diff(offsets), starts, limits, coins)
    return PackedExamples(starts, in_second, first_tokens)


def _draw(items: IntArray, draw: int) -> FloatArray:
    return uniform(mix(mix(STREAM, draw), items))


def _follow(next_items: IntArray) -> IntArray:
    """0, next_items[0], next_items[next_items[0]], ... while inside."""
    visited, item, following = [], 0, next_items.tolist()
    while item < len(following):
        visited.append(item)
        item = following[item]
    return np.array(visited, np.int64)


def _assign_segments(
    lengths: IntArray, starts: IntArray, limits: IntArray, coins: BoolArray
) -> tuple[BoolArray, IntArray]:
    """Whether each item is in the second segment; and the tokens in the first of each example."""
    counts = np.diff(starts, append=len(lengths))
    first, has_second = np.zeros(len(starts), np.int64), np.zeros(len(starts), bool)
    in_second = np.zeros(len(lengths), bool)
    rows = np.arange(len(starts))
    for index in range(int(counts.max(initial=0))):  # the index-th item of all examples at once
        rows = rows[counts[rows] > index]
        items = starts[rows] + index
        filled, sizes, limit = first[rows], lengths[items], limits[rows]
        exceeds = ~has_second[rows] & (filled < limit) & coins[items]
        in_first = (filled == 0) | (filled + sizes < limit) | exceeds
        first[rows] += sizes * in_first
        in_second[items] = ~in_first
        has_second[rows] |= ~in_first & (sizes > 0)
    return in_second, first


class SegmentedSamples:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] with token types 0 and 1 (Clark et al. 2020, code).

    The first segment keeps at most T - 2 tokens, the second what remains of T - 3.
    """

    def __init__(self, column: Column, vocabulary: Vocabulary, *, tokens_per_sample: int) -> None:
        self._column, self._vocabulary = column, vocabulary
        first_items = np.cumsum([0, *(part.items for part in column.parts)])
        packed = [
            pack_examples(part, tokens_per_sample, int(first))
            for part, first in zip(column.parts, first_items, strict=False)
        ]
        self._in_second = np.concatenate([part.in_second_segment for part in packed])
        starts = [part.starts + first for part, first in zip(packed, first_items, strict=False)]
        self._items = np.append(np.concatenate(starts), first_items[-1])
        """First item of each example, and at the end the number of items."""
        self._bounds = np.append(list_item_starts(column), column.elements)
        """First element of each item, and at the end the number of elements."""
        self._first_tokens = np.concatenate([part.first_tokens for part in packed])
        full_lengths = np.diff(self._bounds[self._items])
        self._first_lengths = np.minimum(self._first_tokens, tokens_per_sample - 2)
        room = np.maximum(0, tokens_per_sample - 3 - self._first_lengths)
        second_lengths = np.minimum(full_lengths - self._first_tokens, room)
        self.lengths: IntArray = self._first_lengths + 2 + second_lengths + (second_lengths > 0)
        self.advice = ""
        self.remark = describe_truncation(full_lengths, self._first_lengths + second_lengths)

    def read_batch(self, ids: IntArray) -> SentenceBatch:
        """Read samples, insert [CLS] and [SEP], and pad to the longest, all rows at once."""
        lengths, first = self.lengths[ids], 1 + self._first_lengths[ids][:, None]  # the first [SEP]
        positions, last = np.arange(lengths.max())[None], lengths[:, None] - 1
        inside, after_first = positions <= last, positions > first
        candidates = inside & (positions > 0) & (positions != first) & (positions < last)
        shift = self._first_tokens[ids][:, None] - first  # from position to token, in the second
        order, starts = self._element_order(ids)
        local = np.where(candidates, positions - 1 + after_first * shift, 0)
        ends = self._bounds[self._items[ids + 1]]
        elements = order[starts[:, None] + local]
        tokens = self._column.take(elements, self._bounds[self._items[ids]], ends)
        tokens[:, 0] = self._vocabulary.cls
        tokens[(positions == first) | (positions == last)] = self._vocabulary.sep
        tokens[~inside] = self._vocabulary.pad
        return SentenceBatch(tokens, lengths, candidates, (after_first & inside).astype(np.int64))

    def _element_order(self, ids: IntArray) -> tuple[IntArray, IntArray]:
        """Elements of the examples back to back, first segments first, and each example's start."""
        counts = self._items[ids + 1] - self._items[ids]
        rows = np.repeat(np.arange(len(ids)), counts)
        items = ragged_arange(self._items[ids], counts)
        items = items[np.argsort(2 * rows + self._in_second[items], kind="stable")]
        sizes = self._bounds[items + 1] - self._bounds[items]
        starts = np.cumsum(sizes) - sizes
        return ragged_arange(self._bounds[items], sizes), starts[np.cumsum(counts) - counts]
