"""Chunks of tagged sentences as batches, for encoders of whole words or of subwords.

N words of the batch   P of their subwords
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toolkit.common.arrays import IntArray, ragged_arange
from toolkit.common.errors import ToolkitError
from toolkit.config.declared import OF_MODEL, AtLeast
from toolkit.criteria import IGNORED
from toolkit.data.formats.tagging.split import (
    TaggedSplit,
    TaggedWords,
    split_into_chunks,
    word_indices,
)
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import Examples, pad_rows
from toolkit.tasks.task import FeatureOptions

DEFAULT_TOKENS = 512
"""tokens_per_sample for architectures without a maximum length."""


@dataclass(frozen=True, kw_only=True)
class PosTaggingConfig(FeatureOptions, section="task"):
    """Options of the task pos_tagging."""

    pooling: Literal["first", "mean"] = field(default="first", metadata=OF_MODEL)
    """State from which a word's tag is predicted. first: that of its first subword; mean: the mean
    over its subwords."""
    tokens_per_sample: Annotated[int, AtLeast(3, or_zero=True)] = 0
    """Maximum number of tokens read at once, special tokens included; longer sentences are split
    into chunks, and every word is still tagged. 0 for the architecture's maximum."""


@dataclass(frozen=True, kw_only=True)
class ResolvedTaggingConfig(PosTaggingConfig):
    """The options for one architecture: tokens_per_sample is above 0."""

    fixed_length: int = 0
    """Length that every chunk is padded to; 0 for that of the longest in its batch."""


OBJECTIVE = "tag"


class TaggingBatch(NamedTuple):
    """Chunks of sentences, and the tag of every word."""

    inputs: Inputs
    selected: Int[Tensor, " P"]
    """Flat indices of the subwords that words are predicted from into B x S."""
    word_index: Int[Tensor, " P"] | None
    """Word of each of these subwords; None if every word has one."""
    targets: Int[Tensor, " N"]
    """Label of each word; IGNORED in padding rows and for tags unseen in training."""
    ids: Int[Tensor, " N"]
    """Index of each word in the split; -1 in padding rows."""
    scored: Bool[Tensor, " N"]
    """Whether the true tag is known."""
    oov: Bool[Tensor, " N"]
    """Scored, and out of the vocabulary."""
    ambiguous: Bool[Tensor, " N"]
    """Scored and in the vocabulary, with several tags in the training split."""
    weights: dict[str, float]
    sentences: int
    """Chunks, which are the examples."""
    tokens: int
    """Words."""


class TaggingExamples(Examples[TaggingBatch]):
    """The chunks of a split, or of other words."""

    def __init__(self, c: ResolvedTaggingConfig, split: TaggedWords, *, row_multiple: int) -> None:
        self.split, self.row_multiple = split, row_multiple
        tokenizer = split.tokenizer
        if c.fixed_length and not tokenizer.has_words:
            raise ToolkitError(
                "A word-level architecture requires word-level data, but this folder has subwords. "
                "Run toolkit-preprocess without options that select a subword tokenizer, such as "
                "--tokenizer-from."
            )
        self._special = int(tokenizer.vocabulary.cls != tokenizer.vocabulary.pad)
        """1 with [CLS] and [SEP], 0 without."""
        room = c.tokens_per_sample - 2 * self._special
        self._counts = np.minimum(split.type_pieces[2], room)
        self._chunks = split_into_chunks(split.lengths, self._counts[split.types], room)
        self._first_piece = c.pooling == "first"
        self.lengths = self._chunks.token_counts + 2 * self._special
        if c.fixed_length:
            self.lengths = np.full_like(self.lengths, c.fixed_length)
        if isinstance(split, TaggedSplit):
            self.fingerprint = compute_fingerprint(split.folder.fingerprint, split.name, c)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TaggingBatch:
        split, ids = self.split, ids % len(self)
        words = word_indices(self._chunks, ids)
        types, tags = split.types[words], split.tags[words]
        inputs, first_pieces, counts = self._inputs(ids, types)
        selected, word_index, rows = first_pieces, None, self._row_count(len(words))
        if not self._first_piece and int(counts.max()) > 1:
            selected = ragged_arange(first_pieces, counts)
            index = np.repeat(np.arange(len(words)), counts)
            word_index = pad_rows(index, self._row_count(len(index)), rows - 1)
        scored = tags > -2
        return TaggingBatch(
            inputs=inputs,
            selected=pad_rows(selected, self._row_count(len(selected)), 0),
            word_index=word_index,
            targets=pad_rows(np.where(tags < 0, IGNORED, tags), rows, IGNORED),
            ids=pad_rows(words, rows, -1),
            scored=pad_rows(scored, rows, False),
            oov=pad_rows(split.oov[words] & scored, rows, False),
            ambiguous=pad_rows(split.ambiguous[words] & scored, rows, False),
            weights={OBJECTIVE: float((tags >= 0).sum())},
            sentences=len(ids),
            tokens=len(words),
        )

    def _inputs(self, ids: IntArray, types: IntArray) -> tuple[Inputs, IntArray, IntArray]:
        """The encoder's inputs; each word's first subword, as a flat index, and subword count."""
        vocabulary, pieces = self.split.tokenizer.vocabulary, self.split.type_pieces[0]
        counts, lengths = self._counts[types], self.lengths[ids]
        width, token_counts = int(lengths.max()), self._chunks.token_counts[ids]
        positions = ragged_arange(np.arange(len(ids)) * width + self._special, token_counts)
        tokens = np.full(len(ids) * width, vocabulary.pad)
        tokens[positions] = pieces[ragged_arange(self.split.type_pieces[1][types], counts)]
        real = token_counts + 2 * self._special
        if self._special:
            rows = np.arange(len(ids)) * width
            tokens[rows], tokens[rows + real - 1] = vocabulary.cls, vocabulary.sep
        padding = np.arange(width) >= real[:, None]
        first_pieces = positions[np.cumsum(counts) - counts]
        char_ids = word_index = None
        if self.split.tokenizer.has_words:
            # the characters of each distinct word, <PAD> first, and each position's word
            distinct, index = np.unique(types, return_inverse=True)
            indices = np.zeros(len(ids) * width, np.int64)
            indices[first_pieces] = index + 1
            word_index = torch.from_numpy(indices.reshape(len(ids), width))
            count = self._row_count(len(distinct) + 1)
            chars = pad_rows(np.append(-1, distinct), count, -1).numpy()
            char_ids = torch.from_numpy(self.split.type_char_ids[chars])
        inputs = Inputs(
            tokens=torch.from_numpy(tokens.reshape(len(ids), width)),
            padding=torch.from_numpy(padding) if padding.any() else None,
            char_ids=char_ids,
            word_index=word_index,
        )
        return inputs, first_pieces, counts

    def _row_count(self, count: int) -> int:
        """With fixed shapes the next multiple, with one padding row at least."""
        m = self.row_multiple
        return m * (count // m + 1) if m > 1 else count
