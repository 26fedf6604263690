"""ELECTRA's samples: items packed to a target length and assigned to two segments."""

from __future__ import annotations

import numpy as np

from toolkit.common.arrays import BoolArray, FloatArray, IntArray, mix, ragged_arange, uniform
from toolkit.data.samples.sequence_pairs import SentenceBatch, TextSamples, describe_truncation
from toolkit.data.storage.column_files import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

STREAM = 0x454C4543  # separates these draws from those of masks
TARGET, LENGTH, SINGLE, COIN = range(4)
SHORT_RATE, SINGLE_RATE, MIN_TARGET = 0.05, 0.1, 5


def pack_examples(
    part: ColumnPart, tokens_per_sample: int, first_item: int
) -> tuple[IntArray, BoolArray, IntArray]:
    """Items up to a target of T tokens, or with 5 % uniform in 5 .. T (Clark et al. 2020, code).

    An example ends with the item that reaches the target, or with its document. With 10 % it is
    one segment. Otherwise an item goes to the first segment if that is empty, or stays below
    (target - 3) // 2 with it, or, half of the time, if it is the one that exceeds this while the
    second is empty; else to the second. So a later short item may precede an earlier long one.

    Draws are a hash of the number of the example's first item. Unlike there, where the first target
    of a file list is always T. Returns the first item of each example, whether each item is in the
    second segment, and the tokens in the first segment of each example, before truncation.
    """
    offsets, count = part.offsets, part.items
    items = np.arange(first_item, first_item + count)
    widths = tokens_per_sample + 1 - MIN_TARGET
    short = MIN_TARGET + (_draw(items, LENGTH) * widths).astype(np.int64)
    targets = np.where(_draw(items, TARGET) < SHORT_RATE, short, tokens_per_sample)
    target_ends = np.searchsorted(offsets, offsets[:-1] + targets)
    edges = np.union1d(part.document_starts, [0, count])
    document_ends = edges[np.searchsorted(edges, np.arange(count), side="right")]
    following, visited, item = np.minimum(target_ends, document_ends).tolist(), list[int](), 0
    while item < count:
        visited.append(item)
        item = following[item]
    starts = np.array(visited, np.int64)
    halves = (targets[starts] - 3) // 2
    single = _draw(items[starts], SINGLE) < SINGLE_RATE
    limits = np.where(single, np.iinfo(np.int64).max // 2, halves)
    coins = _draw(items, COIN) < 0.5
    return starts, *_assign_segments(np.diff(offsets), starts, limits, coins)


def _draw(items: IntArray, draw: int) -> FloatArray:
    return uniform(mix(mix(STREAM, draw), items))


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


class SegmentedSamples(TextSamples):
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] with token types 0 and 1 (Clark et al. 2020, code).

    The first segment keeps at most T - 2 tokens, the second what remains of T - 3.
    """

    def __init__(self, column: Column, vocabulary: Vocabulary, *, tokens_per_sample: int) -> None:
        self._column, self._vocabulary = column, vocabulary
        first_items = np.cumsum([0, *(part.items for part in column.parts)])
        packed = (
            pack_examples(part, tokens_per_sample, int(first))
            for part, first in zip(column.parts, first_items, strict=False)
        )
        part_starts, in_second, first_tokens = zip(*packed, strict=True)
        self._in_second = np.concatenate(in_second)
        starts = [its + first for its, first in zip(part_starts, first_items, strict=False)]
        self._items = np.append(np.concatenate(starts), first_items[-1])
        """First item of each example, and at the end the number of items."""
        self._bounds = np.append(column.item_starts, column.elements)
        """First element of each item, and at the end the number of elements."""
        self._first_tokens = np.concatenate(first_tokens)
        full_lengths = np.diff(self._bounds[self._items])
        self._first_lengths = np.minimum(self._first_tokens, tokens_per_sample - 2)
        room = np.maximum(0, tokens_per_sample - 3 - self._first_lengths)
        second_lengths = np.minimum(full_lengths - self._first_tokens, room)
        self.lengths: IntArray = self._first_lengths + 2 + second_lengths + (second_lengths > 0)
        self.loses_much = False
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
