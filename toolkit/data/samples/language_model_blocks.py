"""The running text of a column with the ends of its sentences or documents, cut into samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.samples.text_samples import cut_spans
from toolkit.data.storage.columns import Column, ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SAMPLE_MODES = ("blocks", "documents", "items")
EOS_AFTER = ("items", "documents")


class ShiftedTokens(NamedTuple):
    """Samples side by side, B x T."""

    previous: Numbers
    """The symbol before each; padding behind a sample's end."""
    tokens: Numbers
    inside: Flags
    """False at padding."""


class TokenBlocks:
    """Samples of a text of which each symbol is told once, from those before it in its sample.

    A sample that goes on with the text of another begins behind that one's last symbol; one that
    begins a part of the text, a document or an item, as `samples` says, behind the end symbol.
    """

    def __init__(
        self,
        column: Column,
        words: Vocabulary,
        *,
        sample_mode: str,
        eos_after: str,
        tokens_per_sample: int,
    ) -> None:
        self._column, self._words = column, words
        parts, elements = column.parts, column.part_offsets
        cuts = [find_eos_positions(column, i, eos_after) + elements[i] for i in range(len(parts))]
        self._cuts: Numbers = np.concatenate(cuts)
        """Elements that end symbols stand before."""
        self._ends: Numbers = self._cuts + np.arange(len(self._cuts))
        """The places of the end symbols."""
        firsts = elements + np.cumsum([0, *map(len, cuts)])
        begins, stops, fresh = [], [], []
        for i, part in enumerate(parts):
            units = self.places(find_unit_starts(part, sample_mode) + elements[i])
            units = np.concatenate([firsts[i : i + 1], units[units > firsts[i]]])
            found = cut_spans(units, np.append(units[1:], firsts[i + 1]), tokens_per_sample)
            begins.append(found.starts)
            stops.append(found.ends)
            fresh.append(np.isin(found.starts, units))
        self._begins, self._stops = np.concatenate(begins), np.concatenate(stops)
        self._fresh: Flags = np.concatenate(fresh)
        self.lengths: Numbers = self._stops - self._begins

    def places(self, elements: Numbers) -> Numbers:
        """Places of elements in the text with its ends."""
        return elements + np.searchsorted(self._cuts, elements, side="right")

    def read_batch(self, ids: Numbers) -> ShiftedTokens:
        begins, stops = self._begins[ids][:, None], self._stops[ids][:, None]
        offsets = np.arange(-1, int((stops - begins).max()))[None]
        places = np.clip(begins + offsets, np.where(self._fresh[ids], begins.T, 0).T, stops - 1)
        before = np.searchsorted(self._ends, places)
        is_end = self._ends[np.minimum(before, len(self._ends) - 1)] == places
        elements = places - before - is_end  # for an end symbol the one before it
        low, high = elements.min(1), elements.max(1) + 1
        found = self._column.take(elements, low, high)
        found[is_end] = self._words.sep
        found[self._fresh[ids], 0] = self._words.sep
        inside = begins + offsets[:, 1:] < stops
        found[:, 1:][~inside] = self._words.pad
        previous = np.where(inside, found[:, :-1], self._words.pad)
        return ShiftedTokens(previous, found[:, 1:], inside)


def find_eos_positions(column: Column, number: int, ends: str) -> Numbers:
    """Elements of a part behind which an end stands: of each item, or of each document."""
    part = column.parts[number]
    if ends == "items":
        return np.asarray(part.offsets[1:])
    later = [it for it in column.parts[number + 1 :] if it.items]
    first = later[0].document_starts if later else np.zeros(1, np.int64)
    closed = len(first) > 0 and first[0] == 0  # the next part begins a document
    inner = part.offsets[part.document_starts]
    last = [part.elements] if closed and part.items else []
    return np.concatenate([inner[inner > 0], np.array(last, np.int64)])


def find_unit_starts(part: ColumnPart, samples: str) -> Numbers:
    """Elements of a part that begin what no sample crosses."""
    if samples == "blocks":
        return np.zeros(0, np.int64)
    offsets = part.offsets
    return np.asarray(offsets[:-1] if samples == "items" else offsets[part.document_starts])
