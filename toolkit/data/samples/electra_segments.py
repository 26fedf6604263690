"""ELECTRA's sentences: text gathered to a target length and dealt out to two segments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.random_hash import mix, uniform
from toolkit.data.ragged import ragged_arange
from toolkit.data.samples.text_samples import Flags, Numbers, SentenceBatch, describe_truncation
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

Reals = npt.NDArray[np.float64]
STREAM = 0x454C4543  # keeps these draws apart from those of masks
TARGET, LENGTH, SINGLE, COIN = range(4)
SHORT_RATE, SINGLE_RATE, SHORTEST = 0.05, 0.1, 5


class PackedExamples(NamedTuple):
    """Examples of a part: runs of items, and which of them go to the second segment."""

    starts: Numbers
    """First item of each example; it ends where the next one begins."""
    in_second_segment: Flags
    """For every item."""
    first_tokens: Numbers
    """Tokens in the first segment of each example, before anything is cut off."""


def pack_examples(part: ColumnPart, tokens_per_sample: int, first_item: int) -> PackedExamples:
    """Items up to a target of T tokens, or with 5 % uniform in 5 .. T (Clark et al. 2020, code).

    An example ends with the item that reaches the target, or with its document. With 10 % it is
    one segment; otherwise an item goes to the first segment while that is empty, where it stays
    below (target - 3) // 2 with it, and half of the time where it goes over that while the second
    is empty; else to the second. A later short item may so come before an earlier long one.

    Draws are a hash of the item that an example begins with (its number in the column), so that
    the examples are the same in every run. There, the first target of a file list is always T.
    """
    offsets, count = part.offsets, part.items
    items = np.arange(first_item, first_item + count)
    targets = _targets(items, tokens_per_sample)
    reach = np.searchsorted(offsets, offsets[:-1] + targets)
    edges = np.union1d(part.document_starts, [0, count])
    documents = edges[np.searchsorted(edges, np.arange(count), side="right")]
    begins = _walk(np.minimum(reach, documents))
    halves = (targets[begins] - 3) // 2
    single = _draw(items[begins], SINGLE) < SINGLE_RATE
    most = np.where(single, np.iinfo(np.int64).max // 2, halves)
    second, first_tokens = _deal(np.diff(offsets), begins, most, _draw(items, COIN) < 0.5)
    return PackedExamples(begins, second, first_tokens)


def _draw(items: Numbers, draw: int) -> Reals:
    return uniform(mix(mix(STREAM, draw), items))


def _targets(items: Numbers, longest: int) -> Numbers:
    drawn = SHORTEST + (_draw(items, LENGTH) * (longest + 1 - SHORTEST)).astype(np.int64)
    return np.where(_draw(items, TARGET) < SHORT_RATE, drawn, longest)


def _walk(jumps: Numbers) -> Numbers:
    """0, jumps[0], jumps[jumps[0]], ... while inside."""
    found, item, targets = [], 0, jumps.tolist()
    while item < len(targets):
        found.append(item)
        item = targets[item]
    return np.array(found, np.int64)


def _deal(lengths: Numbers, begins: Numbers, most: Numbers, coins: Flags) -> tuple[Flags, Numbers]:
    """Second segment or not, for every item; and the tokens in the first. All examples at once."""
    counts = np.diff(begins, append=len(lengths))
    first, other = np.zeros(len(begins), np.int64), np.zeros(len(begins), bool)
    second = np.zeros(len(lengths), bool)
    rows = np.arange(len(begins))
    for place in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > place]
        items = begins[rows] + place
        filled, sizes, limit = first[rows], lengths[items], most[rows]
        over = ~other[rows] & (filled < limit) & coins[items]
        goes = (filled == 0) | (filled + sizes < limit) | over
        first[rows] += sizes * goes
        second[items] = ~goes
        other[rows] |= ~goes & (sizes > 0)
    return second, first


class SegmentedSamples:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] with token types 0 and 1 (Clark et al. 2020, code).

    The first segment keeps at most T - 2 tokens, the second what is left of T - 3.
    """

    def __init__(self, column: Column, vocabulary: Vocabulary, *, tokens_per_sample: int) -> None:
        self._column, self._words = column, vocabulary
        firsts = np.cumsum([0, *(part.items for part in column.parts)])
        found = [
            pack_examples(part, tokens_per_sample, int(first))
            for part, first in zip(column.parts, firsts, strict=False)
        ]
        self._second = np.concatenate([part.in_second_segment for part in found])
        begins = [part.starts + first for part, first in zip(found, firsts, strict=False)]
        self._items = np.append(np.concatenate(begins), firsts[-1])
        elements = zip(column.parts, column.part_offsets.tolist(), strict=False)
        bounds = [part.offsets[:-1] + first for part, first in elements]
        self._bounds = np.append(np.concatenate(bounds), column.elements)
        self._first_tokens = np.concatenate([part.first_tokens for part in found])
        whole = np.diff(self._bounds[self._items])
        self._firsts = np.minimum(self._first_tokens, tokens_per_sample - 2)
        room = np.maximum(0, tokens_per_sample - 3 - self._firsts)
        seconds = np.minimum(whole - self._first_tokens, room)
        self.lengths: Numbers = self._firsts + 2 + seconds + (seconds > 0)
        self.remark = describe_truncation(whole, self._firsts + seconds)

    def read_batch(self, ids: Numbers) -> SentenceBatch:
        """Read, put [CLS] and [SEP] in and pad to the longest, all rows at once."""
        lengths, first = self.lengths[ids], 1 + self._firsts[ids][:, None]  # of the first [SEP]
        places, last = np.arange(lengths.max())[None], lengths[:, None] - 1
        inside, behind = places <= last, places > first
        candidates = inside & (places > 0) & (places != first) & (places < last)
        tail = self._first_tokens[ids][:, None] - first  # from a place to its token, in the second
        order, begins = self._order(ids)
        source = order[begins[:, None] + np.where(candidates, places - 1 + behind * tail, 0)]
        ends = self._bounds[self._items[ids + 1]]
        tokens = self._column.take(source, self._bounds[self._items[ids]], ends)
        tokens[:, 0] = self._words.cls
        tokens[(places == first) | (places == last)] = self._words.sep
        tokens[~inside] = self._words.pad
        return SentenceBatch(tokens, lengths, candidates, (behind & inside).astype(np.int64))

    def _order(self, ids: Numbers) -> tuple[Numbers, Numbers]:
        """Elements of the examples back to back, first segments first, and each example's place."""
        counts = self._items[ids + 1] - self._items[ids]
        rows = np.repeat(np.arange(len(ids)), counts)
        items = ragged_arange(self._items[ids], counts)
        items = items[np.argsort(2 * rows + self._second[items], kind="stable")]
        sizes = self._bounds[items + 1] - self._bounds[items]
        begins = np.cumsum(sizes) - sizes
        return ragged_arange(self._bounds[items], sizes), begins[np.cumsum(counts) - counts]
