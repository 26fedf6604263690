"""Samples of running text put into batches, each symbol to be told from those before it.

B batch   T places of a sample   N places that have a symbol
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.criteria import IGNORED
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.language_model_blocks import ShiftedTokens, TokenBlocks
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import pad_to_multiple

OBJECTIVE = "lm"
Numbers = npt.NDArray[np.int64]


class BlockBatch(NamedTuple):
    """Samples, and the symbol behind each place."""

    inputs: Inputs
    """The symbol before each; padding behind a sample's end, which a model that looks to the left
    alone never sees."""
    selected: Int[Tensor, " N"]
    """Where there is a symbol, as flat indices into B x T; rows beyond the last repeat 0."""
    targets: Int[Tensor, " N"]
    """These symbols; IGNORED in rows that only fill up."""
    word_count: float
    """Words among the targets: first pieces of words, and end symbols."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class BlockExamples:
    """The samples of one split."""

    def __init__(
        self,
        folder: DataFolder,
        split: str,
        *,
        sample_mode: str,
        eos_after: str,
        tokens_per_sample: int,
        fixed_shapes: bool,
    ) -> None:
        self._words, self._fixed_shapes = folder.vocabulary, fixed_shapes
        self._stream = TokenBlocks(
            folder.split(split).column("tokens"),
            folder.vocabulary,
            sample_mode=sample_mode,
            eos_after=eos_after,
            tokens_per_sample=tokens_per_sample,
        )
        self._begins_word = self._words.starts_word.copy()
        self._begins_word[self._words.sep] = True
        self.lengths: Numbers = self._stream.lengths
        options = (sample_mode, eos_after, tokens_per_sample)
        self.fingerprint = compute_fingerprint(folder.fingerprint, split, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> BlockBatch:
        """The samples side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        rows = self._stream.read_batch(ids)
        targets = rows.tokens[rows.inside]
        count = 0 if idle else len(targets)
        told = np.full_like(targets, IGNORED) if idle else targets
        return BlockBatch(
            inputs=Inputs(tokens=torch.from_numpy(rows.previous)),
            selected=pad_to_multiple(np.flatnonzero(rows.inside), 0, self._fixed_shapes),
            targets=pad_to_multiple(told, IGNORED, self._fixed_shapes),
            word_count=0.0 if idle else float(self._starts_word_mask(rows).sum()),
            weights={OBJECTIVE: float(count)},
            sentences=0 if idle else len(ids),
            tokens=count,
        )

    def _starts_word_mask(self, rows: ShiftedTokens) -> npt.NDArray[np.bool_]:
        """Which targets do: by their mark, or behind an end, where some tokenizers leave it out."""
        behind_end = rows.previous[rows.inside] == self._words.sep
        marked: npt.NDArray[np.bool_] = self._begins_word[rows.tokens[rows.inside]]
        return marked | behind_end
