"""Samples of token columns with special tokens: texts, pairs, and pre-training samples, which are
pairs of items or blocks of running text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import AnyArray, BoolArray, IntArray, ragged_arange
from toolkit.data.storage.column_files import WORDS, Column, ColumnPart
from toolkit.data.storage.data_folder import Split
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
        self._starts, self.lengths = column.item_starts, column.lengths

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


class TokenSamples(ABC):
    """Samples of a column, whose batches are read with their special tokens."""

    lengths: IntArray
    _column: Column
    _vocabulary: Vocabulary

    @abstractmethod
    def read_tokens(self, ids: IntArray) -> IntArray:
        """The tokens of samples with their special tokens, B x S."""

    def count_words(self, split: Split) -> IntArray | None:
        """Words that start in each sample; None unless all folders of the split count words."""
        words = split.columns.get(WORDS)
        if not words or [p.elements for p in words.parts] != [
            p.elements for p in self._column.parts
        ]:
            return None
        counting = copy(self)  # reads counts in place of tokens, and 0 in place of special ones
        counting._column, counting._vocabulary = words, NO_WORDS
        return counting.sum_tokens(lambda count: count)

    def sum_tokens(self, value: Callable[[IntArray], AnyArray]) -> AnyArray:
        """The sum of the values of its tokens for each sample."""
        ids = np.arange(len(self.lengths))
        parts = np.split(ids, range(COUNTED_SAMPLES, len(ids), COUNTED_SAMPLES))
        return np.concatenate([value(self.read_tokens(part)).sum(1) for part in parts])


NO_WORDS = Vocabulary(["0"], pad=0, cls=0, sep=0, mask=0, unk=0)
COUNTED_SAMPLES = 1024
"""Samples whose words are counted at once."""
MAX_LOST = 0.02
"""Share of lost tokens above which the summary of a run says how to keep them."""


class SampleSpans(NamedTuple):
    """The elements of its column that each sample covers."""

    starts: IntArray
    middles: IntArray
    """Start of the second segment; equal to the end if there is none."""
    ends: IntArray


class SentenceBatch(NamedTuple):
    """A batch of samples with their special tokens, B x S."""

    tokens: IntArray
    lengths: IntArray
    candidates: BoolArray
    """True at tokens of the text; False at [CLS], [SEP] and padding."""
    segments: IntArray | None = None
    """Token types; None if all are 0."""


def pair_items(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """Items 1-2, 3-4, ... of each folder; an unpaired last one is dropped (Chang et al. 2021)."""
    offsets = part.offsets
    count = (len(offsets) - 1) // 2
    return SampleSpans(offsets[: 2 * count : 2], offsets[1 : 2 * count : 2], offsets[2::2][:count])


def cut_blocks(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """Consecutive blocks of T - 2 tokens, across items and documents; the last may be shorter."""
    return cut_spans(np.array([0]), np.array([part.elements]), tokens_per_sample - 2)


def cut_documents(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """Like `cut_blocks`, but starting again with each document."""
    starts = np.union1d(0, part.offsets[part.document_starts])
    return cut_spans(starts, np.append(starts[1:], part.elements), tokens_per_sample - 2)


SAMPLE_MODES: dict[str, Callable[[ColumnPart, int], SampleSpans]] = {
    "pairs": pair_items,
    "blocks": cut_blocks,
    "documents": cut_documents,
}


def cut_spans(starts: IntArray, ends: IntArray, size: int) -> SampleSpans:
    """Each span in consecutive pieces of `size`; its last may be shorter."""
    counts = -(-(ends - starts) // size)
    piece_starts = np.repeat(starts, counts) + ragged_arange(0, counts) * size
    piece_ends = np.minimum(piece_starts + size, np.repeat(ends, counts))
    return SampleSpans(piece_starts, piece_ends, piece_ends)


def describe_truncation(full_lengths: IntArray, lengths: IntArray) -> str:
    """A remark on the number of truncated samples and lost tokens; empty if there are none."""
    lost = int((full_lengths - lengths).sum())
    if lost == 0:
        return ""
    cut = np.count_nonzero(full_lengths > lengths)
    return f"{cut:,} cut, {lost:,} tokens lost ({lost / full_lengths.sum():.1%})"


class TextSamples(TokenSamples):
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut at `tokens_per_sample` (the tail is lost). As in
    Chang et al. the cut may remove the last [SEP].
    """

    def __init__(
        self, column: Column, vocabulary: Vocabulary, *, sample_mode: str, tokens_per_sample: int
    ) -> None:
        spans = [SAMPLE_MODES[sample_mode](part, tokens_per_sample) for part in column.parts]
        offsets = column.part_offsets[:-1].tolist()
        shifted = [[edges + o for edges in s] for s, o in zip(spans, offsets, strict=True)]
        self.spans = SampleSpans(*(np.concatenate(edges) for edges in zip(*shifted, strict=True)))
        self._column, self._vocabulary = column, vocabulary
        specials = 2 + (self.spans.middles < self.spans.ends)
        full_lengths = self.spans.ends - self.spans.starts + specials
        self.lengths: IntArray = np.minimum(full_lengths, tokens_per_sample)
        self.remark = describe_truncation(full_lengths, self.lengths)
        self.loses_much = self.lengths.sum() < (1 - MAX_LOST) * full_lengths.sum()

    def read_tokens(self, ids: IntArray) -> IntArray:
        return self.read_batch(ids).tokens

    def read_batch(self, ids: IntArray) -> SentenceBatch:
        """Read samples, insert [CLS] and [SEP], and pad to the longest, all rows at once."""
        starts, middles, ends = (edges[ids][:, None] for edges in self.spans)
        lengths = self.lengths[ids]
        positions = np.arange(lengths.max())[None]
        first = 1 + middles - starts  # position of the first [SEP]
        last = np.where(middles < ends, 2 + ends - starts, first)  # and of the last
        inside = positions < lengths[:, None]
        candidates = inside & (positions > 0) & (positions != first) & (positions < last)
        source = np.clip(starts + positions - 1 - (positions > first), starts, ends - 1)
        tokens = self._column.take(source, starts[:, 0], ends[:, 0])
        tokens[:, 0] = self._vocabulary.cls
        tokens[(positions == first) | (positions == last)] = self._vocabulary.sep
        tokens[~inside] = self._vocabulary.pad
        return SentenceBatch(tokens, lengths, candidates)


class TokenBlocks(TokenSamples):
    """Samples in which each token of a text is predicted once, from those before it.

    A sample that continues the text of another starts after that one's last token. One that starts
    the text, or a document or an item as `sample_mode` says, starts after the end token.
    """

    def __init__(
        self,
        column: Column,
        vocabulary: Vocabulary,
        *,
        sample_mode: str,
        eos_after: str,
        tokens_per_sample: int,
    ) -> None:
        self._column, self._vocabulary = column, vocabulary
        parts, offsets = column.parts, column.part_offsets
        cuts = [find_eos_positions(column, i, eos_after) + offsets[i] for i in range(len(parts))]
        self._cuts: IntArray = np.concatenate(cuts)
        """Elements before which an end token is inserted."""
        self._eos: IntArray = self._cuts + np.arange(len(self._cuts))
        """Positions of the end tokens in the text that includes them."""
        part_starts = offsets + np.cumsum([0, *map(len, cuts)])
        starts, ends, fresh = [], [], []
        for i, part in enumerate(parts):
            elements = find_unit_starts(part, sample_mode) + offsets[i]
            units = elements + np.searchsorted(self._cuts, elements, side="right")  # in the text
            units = np.concatenate([part_starts[i : i + 1], units[units > part_starts[i]]])
            spans = cut_spans(units, np.append(units[1:], part_starts[i + 1]), tokens_per_sample)
            starts.append(spans.starts)
            ends.append(spans.ends)
            fresh.append(np.isin(spans.starts, units))
        self._starts, self._ends = np.concatenate(starts), np.concatenate(ends)
        self._fresh: BoolArray = np.concatenate(fresh)
        self.lengths: IntArray = self._ends - self._starts

    def read_tokens(self, ids: IntArray) -> IntArray:
        return self.read_batch(ids)[1]

    def read_batch(self, ids: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        """The token before each, the tokens, and False at padding, B x T.

        The tokens before those after a sample's end are padding.
        """
        starts, ends = self._starts[ids][:, None], self._ends[ids][:, None]
        offsets = np.arange(-1, int((ends - starts).max()))[None]
        first = np.where(self._fresh[ids], starts.T, 0).T
        positions = np.clip(starts + offsets, first, ends - 1)
        before = np.searchsorted(self._eos, positions)
        is_eos = self._eos[np.minimum(before, len(self._eos) - 1)] == positions
        elements = positions - before - is_eos  # for an end token the one before it
        low, high = elements.min(1), elements.max(1) + 1
        tokens = self._column.take(elements, low, high)
        tokens[is_eos] = self._vocabulary.sep
        tokens[self._fresh[ids], 0] = self._vocabulary.sep
        inside = starts + offsets[:, 1:] < ends
        tokens[:, 1:][~inside] = self._vocabulary.pad
        previous = np.where(inside, tokens[:, :-1], self._vocabulary.pad)
        return previous, tokens[:, 1:], inside


def find_eos_positions(column: Column, number: int, eos_after: str) -> IntArray:
    """Elements of a part after which an end token follows: of each item, or of each document."""
    part = column.parts[number]
    if eos_after == "items":
        return np.asarray(part.offsets[1:])
    later = [it for it in column.parts[number + 1 :] if it.items]
    first = later[0].document_starts if later else np.zeros(1, np.int64)
    closed = len(first) > 0 and first[0] == 0  # the next part starts a document
    inner = part.offsets[part.document_starts]
    last = [part.elements] if closed and part.items else []
    return np.concatenate([inner[inner > 0], np.array(last, np.int64)])


def find_unit_starts(part: ColumnPart, sample_mode: str) -> IntArray:
    """First elements of the documents or items of a part, which no sample crosses."""
    if sample_mode == "blocks":
        return np.zeros(0, np.int64)
    offsets = part.offsets
    return np.asarray(offsets[:-1] if sample_mode == "items" else offsets[part.document_starts])
