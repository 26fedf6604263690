"""Samples of running text as batches for causal language models.

B batch   T positions of a sample   N positions with a token
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.criteria import IGNORED
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.language_model_blocks import ShiftedTokens, TokenBlocks
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.language_modeling.config import LanguageModelingConfig

OBJECTIVE = "lm"


class BlockBatch(NamedTuple):
    """Samples, and the next token of each position."""

    inputs: Inputs
    """The previous token of each position; padding follows, which a causal model never sees."""
    selected: Int[Tensor, " N"]
    """Flat indices of the positions with a token into B x T; padding rows repeat index 0."""
    targets: Int[Tensor, " N"]
    """These tokens; IGNORED in padding rows."""
    word_count: float
    """Words among the targets: first subwords of words, and end symbols."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class BlockExamples(Examples[BlockBatch]):
    """The samples of one split."""

    def __init__(self, c: LanguageModelingConfig, source: SplitSource) -> None:
        folder, self.row_multiple = source.folder, source.row_multiple
        self._blocks = TokenBlocks(
            folder.split(source.name).column("tokens"),
            folder.vocabulary,
            sample_mode=c.sample_mode,
            eos_after="items" if c.sample_mode == "items" else c.eos_after,
            tokens_per_sample=c.tokens_per_sample,
        )
        self._eos = folder.vocabulary.sep
        self._starts_word = folder.vocabulary.starts_word.copy()
        self._starts_word[self._eos] = True
        self.lengths = self._blocks.lengths
        options = (c.sample_mode, c.eos_after, c.tokens_per_sample)
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, *options)

    def make_batch(self, ids: IntArray, epoch: int | None) -> BlockBatch:
        rows = self._blocks.read_batch(ids % len(self))
        targets = rows.tokens[rows.inside]
        return BlockBatch(
            inputs=Inputs(tokens=torch.from_numpy(rows.previous)),
            selected=self.pad(np.flatnonzero(rows.inside), 0),
            targets=self.pad(targets, IGNORED),
            word_count=float(self._starts_word_mask(rows).sum()),
            weights={OBJECTIVE: float(len(targets))},
            sentences=len(ids),
            tokens=len(targets),
        )

    def to_idle(self, batch: BlockBatch) -> BlockBatch:
        return super().to_idle(batch)._replace(word_count=0.0)

    def _starts_word_mask(self, rows: ShiftedTokens) -> BoolArray:
        """Targets that start a word: by their marker, or after an end symbol, where some
        tokenizers omit it."""
        after_end = rows.previous[rows.inside] == self._eos
        marked: BoolArray = self._starts_word[rows.tokens[rows.inside]]
        return marked | after_end
