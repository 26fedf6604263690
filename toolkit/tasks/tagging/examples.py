"""Chunks of tagged sentences, put into batches for encoders of whole words or of pieces.

N words of the batch   P of their pieces
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.tagging.chunks import cut, words_of
from toolkit.data.formats.tagging.split import TaggedSplit, TaggedWords
from toolkit.data.loading.batching import fingerprint_of
from toolkit.data.ragged import ranges
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import STABLE_ROWS
from toolkit.tasks.tagging.config import SuitedTagging

OBJECTIVE = "tag"

Numbers = npt.NDArray[np.int64]


class TaggedBatch(NamedTuple):
    """Chunks of sentences, and the tag of every word."""

    inputs: Inputs
    places: Int[Tensor, " P"]
    """Pieces that words are predicted from, as flat indices into B x S."""
    owners: Int[Tensor, " P"] | None
    """Which word each of them is a piece of; None where every word has one."""
    targets: Int[Tensor, " N"]
    """Label of each word; IGNORED in rows that only fill up, and of tags not seen in training."""
    words: Int[Tensor, " N"]
    """Number of each word in the split; -1 in rows that only fill up."""
    scored: Bool[Tensor, " N"]
    """Its true tag is known, so that an answer is right or wrong."""
    oov: Bool[Tensor, " N"]
    """Scored, and out of the vocabulary."""
    ambiguous: Bool[Tensor, " N"]
    """Scored and known, with several tags in the training part."""
    weights: dict[str, float]
    sentences: int
    """Chunks, which are the examples."""
    tokens: int
    """Words."""


class TaggedExamples:
    """The chunks of one split."""

    def __init__(self, c: SuitedTagging, split: TaggedWords, *, fixed_shapes: bool) -> None:
        self.split, self._fixed_shapes = split, fixed_shapes
        codec = self.split.codec
        if c.fixed_length and not codec.has_words:
            raise ToolkitError(
                "an architecture that reads whole words must have a folder of them, but this one "
                "has pieces. Run toolkit-preprocess without the option that brought them, such as "
                "--codec-from."
            )
        self._words = codec.has_words
        self._marks = int(codec.vocabulary.cls != codec.vocabulary.pad)  # [CLS] and [SEP]
        most = c.tokens_per_sample - 2 * self._marks
        self._counts = np.minimum(self.split.pieces.counts, most)
        self._chunks = cut(self.split.lengths, self._counts[self.split.types], most)
        self._first, self._fill = c.pooling == "first", c.fixed_length
        self.lengths = self._chunks.tokens + 2 * self._marks
        if self._fill:
            self.lengths = np.full_like(self.lengths, self._fill)
        self.remark = ""
        self.fingerprint = ""
        if isinstance(split, TaggedSplit):
            self.fingerprint = fingerprint_of(split.folder.fingerprint, split.name, c)

    def collate(self, ids: Numbers, epoch: int | None) -> TaggedBatch:
        """The chunks side by side; without ids an idle rank's batch of weight zero."""
        if len(ids) == 0:
            return self._idle()
        split, ids = self.split, ids % len(self.lengths)
        words = words_of(self._chunks, ids)
        types = split.types[words]
        inputs, firsts, counts = self._inputs(ids, types)
        several = not self._first and int(counts.max()) > 1
        places = ranges(firsts, counts) if several else firsts
        owners = np.repeat(np.arange(len(words)), counts) if several else None
        tags = split.tags[words]
        scored = tags > -2
        rows = self._rows(len(words))
        return TaggedBatch(
            inputs=inputs,
            places=filled(places, self._rows(len(places)), 0),
            owners=None if owners is None else filled(owners, self._rows(len(owners)), rows - 1),
            targets=filled(np.where(tags < 0, IGNORED, tags), rows, IGNORED),
            words=filled(words, rows, -1),
            scored=filled(scored, rows, False),
            oov=filled(split.oov[words] & scored, rows, False),
            ambiguous=filled(split.ambiguous[words] & scored, rows, False),
            weights={OBJECTIVE: float((tags >= 0).sum())},
            sentences=len(ids),
            tokens=len(words),
        )

    def _inputs(self, ids: Numbers, types: Numbers) -> tuple[Inputs, Numbers, Numbers]:
        """What the encoder reads; the flat place of each word's first piece, and its pieces."""
        vocabulary, pieces, chunks = self.split.codec.vocabulary, self.split.pieces, self._chunks
        counts, lengths = self._counts[types], self.lengths[ids]
        width = int(lengths.max())
        at = ranges(np.arange(len(ids)) * width + self._marks, chunks.tokens[ids])
        tokens = np.full(len(ids) * width, vocabulary.pad)
        tokens[at] = pieces.ids[ranges(pieces.begins[types], counts)]
        real = chunks.tokens[ids] + 2 * self._marks
        if self._marks:
            rows = np.arange(len(ids)) * width
            tokens[rows], tokens[rows + real - 1] = vocabulary.cls, vocabulary.sep
        padding = np.arange(width) >= real[:, None]
        firsts = at[np.cumsum(counts) - counts]
        spellings = spelled = None
        if self._words:
            spellings, spelled = self._spelt(types, firsts, (len(ids), width))
        inputs = Inputs(
            tokens=torch.from_numpy(tokens.reshape(len(ids), width)),
            padding=torch.from_numpy(padding) if padding.any() else None,
            spellings=spellings,
            spelled=spelled,
        )
        return inputs, firsts, counts

    def _spelt(
        self, types: Numbers, places: Numbers, shape: tuple[int, int]
    ) -> tuple[Int[Tensor, "U C"], Int[Tensor, "B S"]]:
        """Each distinct word of the batch once, <PAD> first; and which one is at each place."""
        distinct, which = np.unique(types, return_inverse=True)
        spelled = np.zeros(shape[0] * shape[1], np.int64)
        spelled[places] = which + 1
        rows = filled(np.append(-1, distinct), self._rows(len(distinct) + 1), -1).numpy()
        spellings = torch.from_numpy(self.split.spellings[rows])
        return spellings, torch.from_numpy(spelled.reshape(shape))

    def _rows(self, count: int) -> int:
        """So many and no more, or a number that comes again, with one that fills up at least."""
        return STABLE_ROWS * (count // STABLE_ROWS + 1) if self._fixed_shapes else count

    def _idle(self) -> TaggedBatch:
        batch = self.collate(np.zeros(1, np.int64), None)
        nothing = torch.full_like(batch.targets, IGNORED)
        return batch._replace(
            targets=nothing,
            words=torch.full_like(batch.words, -1),
            scored=torch.zeros_like(batch.scored),
            oov=torch.zeros_like(batch.oov),
            ambiguous=torch.zeros_like(batch.ambiguous),
            weights={OBJECTIVE: 0.0},
            sentences=0,
            tokens=0,
        )


def filled(values: npt.NDArray[Any], rows: int, filler: int) -> Tensor:
    if len(values) == rows:
        return torch.from_numpy(values)
    whole = np.full(rows, filler, values.dtype)
    whole[: len(values)] = values
    return torch.from_numpy(whole)
