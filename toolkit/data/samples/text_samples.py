"""Sentences for pre-training, cut out of a text column: pairs of items, or blocks of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.ragged import ragged_arange
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class SampleSpans(NamedTuple):
    """Where each sentence lies in its column, in elements."""

    starts: Numbers
    middles: Numbers
    """Where the second segment begins; `ends` where there is none."""
    ends: Numbers


class SentenceBatch(NamedTuple):
    """A batch of sentences with their special symbols, B x S."""

    tokens: Numbers
    lengths: Numbers
    candidates: Flags
    """True at tokens of the text; False at [CLS], [SEP] and padding."""
    segments: Numbers | None = None
    """Token types; None where all are 0."""


def pair_items(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """Items 1-2, 3-4, ... of a part; an unpaired last one is dropped (Chang et al. 2021)."""
    offsets = part.offsets
    count = (len(offsets) - 1) // 2
    return SampleSpans(offsets[: 2 * count : 2], offsets[1 : 2 * count : 2], offsets[2::2][:count])


def cut_blocks(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """Consecutive blocks of T - 2 tokens, across items and documents; the last may be shorter."""
    return cut_spans(np.array([0]), np.array([part.elements]), tokens_per_sample - 2)


def cut_documents(part: ColumnPart, tokens_per_sample: int) -> SampleSpans:
    """As `blocks`, but starting anew with each document."""
    begins = np.union1d(0, part.offsets[part.document_starts])
    ends = np.append(begins[1:], part.elements)
    return cut_spans(begins, ends, tokens_per_sample - 2)


SAMPLE_MODES: dict[str, Callable[[ColumnPart, int], SampleSpans]] = {
    "pairs": pair_items,
    "blocks": cut_blocks,
    "documents": cut_documents,
}


def cut_spans(begins: Numbers, ends: Numbers, size: int) -> SampleSpans:
    counts = -(-(ends - begins) // size)
    starts = np.repeat(begins, counts) + ragged_arange(0, counts) * size
    stops = np.minimum(starts + size, np.repeat(ends, counts))
    return SampleSpans(starts, stops, stops)


def describe_truncation(whole: Numbers, lengths: Numbers) -> str:
    """How many sentences are shorter than they would be, and what that loses."""
    lost = int((whole - lengths).sum())
    if lost == 0:
        return ""
    cut = np.count_nonzero(whole > lengths)
    return f"{cut:,} cut, {lost:,} tokens lost ({lost / whole.sum():.1%})"


class TextSamples:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut at `tokens_per_sample` (the tail is lost).

    As in Chang et al. the cut may take the last [SEP] with it.
    """

    def __init__(
        self, column: Column, vocabulary: Vocabulary, *, sample_mode: str, tokens_per_sample: int
    ) -> None:
        found = [SAMPLE_MODES[sample_mode](part, tokens_per_sample) for part in column.parts]
        firsts = column.part_offsets[:-1].tolist()
        shifted = [[ends + first for ends in s] for s, first in zip(found, firsts, strict=True)]
        self._where = SampleSpans(*(np.concatenate(ends) for ends in zip(*shifted, strict=True)))
        self._column, self._words = column, vocabulary
        specials = 2 + (self._where.middles < self._where.ends)
        whole = self._where.ends - self._where.starts + specials
        self.lengths: Numbers = np.minimum(whole, tokens_per_sample)
        self.remark = describe_truncation(whole, self.lengths)

    def read_batch(self, ids: Numbers) -> SentenceBatch:
        """Read, put [CLS] and [SEP] in and pad to the longest, all rows at once."""
        begins, middles, ends = (edge[ids][:, None] for edge in self._where)
        lengths = self.lengths[ids]
        places = np.arange(lengths.max())[None]
        first = 1 + middles - begins  # the place of the first [SEP]
        last = np.where(middles < ends, 2 + ends - begins, first)  # and of the last
        inside = places < lengths[:, None]
        candidates = inside & (places > 0) & (places != first) & (places < last)
        source = np.clip(begins + places - 1 - (places > first), begins, ends - 1)
        tokens = self._column.take(source, begins[:, 0], ends[:, 0])
        tokens[:, 0] = self._words.cls
        tokens[(places == first) | (places == last)] = self._words.sep
        tokens[~inside] = self._words.pad
        return SentenceBatch(tokens, lengths, candidates)
