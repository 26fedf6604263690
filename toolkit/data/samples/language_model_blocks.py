"""Language model samples: running text with end-of-sentence tokens, cut into blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.samples.text_samples import cut_spans
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

SAMPLE_MODES = ("blocks", "documents", "items")
EOS_AFTER = ("items", "documents")


class ShiftedTokens(NamedTuple):
    """A batch of samples, B x T."""

    previous: IntArray
    """The token before each; padding after a sample's end."""
    tokens: IntArray
    inside: BoolArray
    """False at padding."""


class TokenBlocks:
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
            units = self._to_text_positions(find_unit_starts(part, sample_mode) + offsets[i])
            units = np.concatenate([part_starts[i : i + 1], units[units > part_starts[i]]])
            spans = cut_spans(units, np.append(units[1:], part_starts[i + 1]), tokens_per_sample)
            starts.append(spans.starts)
            ends.append(spans.ends)
            fresh.append(np.isin(spans.starts, units))
        self._starts, self._ends = np.concatenate(starts), np.concatenate(ends)
        self._fresh: BoolArray = np.concatenate(fresh)
        self.lengths: IntArray = self._ends - self._starts

    def _to_text_positions(self, elements: IntArray) -> IntArray:
        """Positions of elements in the text that includes the end tokens."""
        return elements + np.searchsorted(self._cuts, elements, side="right")

    def read_batch(self, ids: IntArray) -> ShiftedTokens:
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
        return ShiftedTokens(previous, tokens[:, 1:], inside)


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
