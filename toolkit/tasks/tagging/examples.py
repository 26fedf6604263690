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
from toolkit.data.formats.tagging.chunks import split_into_chunks, word_indices
from toolkit.data.formats.tagging.split import TaggedSplit, TaggedWords
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.ragged import ragged_arange
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import SHAPE_MULTIPLE
from toolkit.tasks.tagging.config import ResolvedTaggingConfig

OBJECTIVE = "tag"

Numbers = npt.NDArray[np.int64]


class TaggingBatch(NamedTuple):
    """Chunks of sentences, and the tag of every word."""

    inputs: Inputs
    selected: Int[Tensor, " P"]
    """Pieces that words are predicted from, as flat indices into B x S."""
    word_index: Int[Tensor, " P"] | None
    """Which word each of them is a piece of; None where every word has one."""
    targets: Int[Tensor, " N"]
    """Label of each word; IGNORED in rows that only fill up, and of tags not seen in training."""
    word_ids: Int[Tensor, " N"]
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


class TaggingExamples:
    """The chunks of one split."""

    def __init__(self, c: ResolvedTaggingConfig, split: TaggedWords, *, fixed_shapes: bool) -> None:
        self.split, self._fixed_shapes = split, fixed_shapes
        tokenizer = self.split.tokenizer
        if c.fixed_length and not tokenizer.has_words:
            raise ToolkitError(
                "an architecture that reads whole words must have a folder of them, but this one "
                "has pieces. Run toolkit-preprocess without the option that brought them, such as "
                "--tokenizer-from."
            )
        self._words = tokenizer.has_words
        self._marks = int(tokenizer.vocabulary.cls != tokenizer.vocabulary.pad)  # [CLS] and [SEP]
        most = c.tokens_per_sample - 2 * self._marks
        self._counts = np.minimum(self.split.type_pieces.counts, most)
        self._chunks = split_into_chunks(self.split.lengths, self._counts[self.split.types], most)
        self._first, self._fill = c.pooling == "first", c.fixed_length
        self.lengths = self._chunks.token_counts + 2 * self._marks
        if self._fill:
            self.lengths = np.full_like(self.lengths, self._fill)
        self.remark = ""
        self.fingerprint = ""
        if isinstance(split, TaggedSplit):
            self.fingerprint = compute_fingerprint(split.folder.fingerprint, split.name, c)

    def collate(self, ids: Numbers, epoch: int | None) -> TaggingBatch:
        """The chunks side by side; without ids an idle rank's batch of weight zero."""
        if len(ids) == 0:
            return self._idle()
        split, ids = self.split, ids % len(self.lengths)
        words = word_indices(self._chunks, ids)
        types = split.types[words]
        inputs, firsts, counts = self._inputs(ids, types)
        several = not self._first and int(counts.max()) > 1
        places = ragged_arange(firsts, counts) if several else firsts
        owners = np.repeat(np.arange(len(words)), counts) if several else None
        tags = split.tags[words]
        scored = tags > -2
        rows = self._row_count(len(words))
        return TaggingBatch(
            inputs=inputs,
            selected=pad_rows(places, self._row_count(len(places)), 0),
            word_index=None
            if owners is None
            else pad_rows(owners, self._row_count(len(owners)), rows - 1),
            targets=pad_rows(np.where(tags < 0, IGNORED, tags), rows, IGNORED),
            word_ids=pad_rows(words, rows, -1),
            scored=pad_rows(scored, rows, False),
            oov=pad_rows(split.oov[words] & scored, rows, False),
            ambiguous=pad_rows(split.ambiguous[words] & scored, rows, False),
            weights={OBJECTIVE: float((tags >= 0).sum())},
            sentences=len(ids),
            tokens=len(words),
        )

    def _inputs(self, ids: Numbers, types: Numbers) -> tuple[Inputs, Numbers, Numbers]:
        """What the encoder reads; the flat place of each word's first piece, and its pieces."""
        vocabulary, pieces, chunks = (
            self.split.tokenizer.vocabulary,
            self.split.type_pieces,
            self._chunks,
        )
        counts, lengths = self._counts[types], self.lengths[ids]
        width = int(lengths.max())
        at = ragged_arange(np.arange(len(ids)) * width + self._marks, chunks.token_counts[ids])
        tokens = np.full(len(ids) * width, vocabulary.pad)
        tokens[at] = pieces.ids[ragged_arange(pieces.starts[types], counts)]
        real = chunks.token_counts[ids] + 2 * self._marks
        if self._marks:
            rows = np.arange(len(ids)) * width
            tokens[rows], tokens[rows + real - 1] = vocabulary.cls, vocabulary.sep
        padding = np.arange(width) >= real[:, None]
        firsts = at[np.cumsum(counts) - counts]
        spellings = spelled = None
        if self._words:
            spellings, spelled = self._char_inputs(types, firsts, (len(ids), width))
        inputs = Inputs(
            tokens=torch.from_numpy(tokens.reshape(len(ids), width)),
            padding=torch.from_numpy(padding) if padding.any() else None,
            char_ids=spellings,
            word_index=spelled,
        )
        return inputs, firsts, counts

    def _char_inputs(
        self, types: Numbers, places: Numbers, shape: tuple[int, int]
    ) -> tuple[Int[Tensor, "U C"], Int[Tensor, "B S"]]:
        """Each distinct word of the batch once, <PAD> first; and which one is at each place."""
        distinct, which = np.unique(types, return_inverse=True)
        spelled = np.zeros(shape[0] * shape[1], np.int64)
        spelled[places] = which + 1
        rows = pad_rows(np.append(-1, distinct), self._row_count(len(distinct) + 1), -1).numpy()
        spellings = torch.from_numpy(self.split.type_char_ids[rows])
        return spellings, torch.from_numpy(spelled.reshape(shape))

    def _row_count(self, count: int) -> int:
        """So many and no more, or a number that comes again, with one that fills up at least."""
        return SHAPE_MULTIPLE * (count // SHAPE_MULTIPLE + 1) if self._fixed_shapes else count

    def _idle(self) -> TaggingBatch:
        batch = self.collate(np.zeros(1, np.int64), None)
        nothing = torch.full_like(batch.targets, IGNORED)
        return batch._replace(
            targets=nothing,
            word_ids=torch.full_like(batch.word_ids, -1),
            scored=torch.zeros_like(batch.scored),
            oov=torch.zeros_like(batch.oov),
            ambiguous=torch.zeros_like(batch.ambiguous),
            weights={OBJECTIVE: 0.0},
            sentences=0,
            tokens=0,
        )


def pad_rows(values: npt.NDArray[Any], rows: int, filler: int) -> Tensor:
    if len(values) == rows:
        return torch.from_numpy(values)
    whole = np.full(rows, filler, values.dtype)
    whole[: len(values)] = values
    return torch.from_numpy(whole)
