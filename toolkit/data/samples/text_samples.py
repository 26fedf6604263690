"""Sentences for pre-training, cut out of a text column: pairs of items, or blocks of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.ragged import ranges
from toolkit.data.storage.columns import Column, Part
from toolkit.data.tokenizers.vocabulary import Vocabulary

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Stretches(NamedTuple):
    """Where each sentence lies in its column, in elements."""

    begins: Numbers
    middles: Numbers
    """Where the second segment begins; `ends` where there is none."""
    ends: Numbers


class Sentences(NamedTuple):
    """A batch of sentences with their special symbols, B x S."""

    tokens: Numbers
    lengths: Numbers
    candidates: Flags
    """True at tokens of the text; False at [CLS], [SEP] and padding."""
    segments: Numbers | None = None
    """Token types; None where all are 0."""


def pairs(part: Part, tokens_per_sample: int) -> Stretches:
    """Items 1-2, 3-4, ... of a part; an unpaired last one is dropped (Chang et al. 2021)."""
    offsets = part.offsets
    count = (len(offsets) - 1) // 2
    return Stretches(offsets[: 2 * count : 2], offsets[1 : 2 * count : 2], offsets[2::2][:count])


def blocks(part: Part, tokens_per_sample: int) -> Stretches:
    """Consecutive blocks of T - 2 tokens, across items and documents; the last may be shorter."""
    return chopped(np.array([0]), np.array([part.elements]), tokens_per_sample - 2)


def documents(part: Part, tokens_per_sample: int) -> Stretches:
    """As `blocks`, but starting anew with each document."""
    begins = np.union1d(0, part.offsets[part.document_items])
    ends = np.append(begins[1:], part.elements)
    return chopped(begins, ends, tokens_per_sample - 2)


SAMPLES: dict[str, Callable[[Part, int], Stretches]] = {
    "pairs": pairs,
    "blocks": blocks,
    "documents": documents,
}


def chopped(begins: Numbers, ends: Numbers, size: int) -> Stretches:
    counts = -(-(ends - begins) // size)
    starts = np.repeat(begins, counts) + ranges(0, counts) * size
    stops = np.minimum(starts + size, np.repeat(ends, counts))
    return Stretches(starts, stops, stops)


def remark_of(whole: Numbers, lengths: Numbers) -> str:
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
        self, column: Column, vocabulary: Vocabulary, *, samples: str, tokens_per_sample: int
    ) -> None:
        found = [SAMPLES[samples](part, tokens_per_sample) for part in column.parts]
        firsts = column.first_elements[:-1].tolist()
        shifted = [[ends + first for ends in s] for s, first in zip(found, firsts, strict=True)]
        self._where = Stretches(*(np.concatenate(ends) for ends in zip(*shifted, strict=True)))
        self._column, self._words = column, vocabulary
        specials = 2 + (self._where.middles < self._where.ends)
        whole = self._where.ends - self._where.begins + specials
        self.lengths: Numbers = np.minimum(whole, tokens_per_sample)
        self.remark = remark_of(whole, self.lengths)

    def sentences(self, ids: Numbers) -> Sentences:
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
        return Sentences(tokens, lengths, candidates)
