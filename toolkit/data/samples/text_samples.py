"""Pre-training samples cut from a text column: pairs of items, or blocks of running text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

MAX_LOST = 0.02
"""Share of lost tokens above which the summary of a run says how to keep them."""
ADVICE = (
    "--task.sample-mode blocks, a larger --task.tokens-per-sample, or shorter items "
    "(toolkit-preprocess --segment-by sentences)"
)


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
    ends = np.append(starts[1:], part.elements)
    return cut_spans(starts, ends, tokens_per_sample - 2)


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


class TextSamples:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut at `tokens_per_sample` (the tail is lost).

    As in Chang et al. the cut may remove the last [SEP].
    """

    def __init__(
        self, column: Column, vocabulary: Vocabulary, *, sample_mode: str, tokens_per_sample: int
    ) -> None:
        spans = [SAMPLE_MODES[sample_mode](part, tokens_per_sample) for part in column.parts]
        offsets = column.part_offsets[:-1].tolist()
        shifted = [[edges + o for edges in s] for s, o in zip(spans, offsets, strict=True)]
        self._spans = SampleSpans(*(np.concatenate(edges) for edges in zip(*shifted, strict=True)))
        self._column, self._vocabulary = column, vocabulary
        specials = 2 + (self._spans.middles < self._spans.ends)
        full_lengths = self._spans.ends - self._spans.starts + specials
        self.lengths: IntArray = np.minimum(full_lengths, tokens_per_sample)
        self.remark = describe_truncation(full_lengths, self.lengths)
        kept = self.lengths.sum() >= (1 - MAX_LOST) * full_lengths.sum()
        self.advice = "" if kept else ADVICE

    def read_batch(self, ids: IntArray) -> SentenceBatch:
        """Read samples, insert [CLS] and [SEP], and pad to the longest, all rows at once."""
        starts, middles, ends = (edges[ids][:, None] for edges in self._spans)
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
