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
from toolkit.data.loading.batching import fingerprint_of
from toolkit.data.samples.language_model_blocks import Rows, Stream
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import filled

OBJECTIVE = "lm"
Numbers = npt.NDArray[np.int64]


class BlockBatch(NamedTuple):
    """Samples, and the symbol behind each place."""

    inputs: Inputs
    """The symbol before each; padding behind a sample's end, which a model that looks to the left
    alone never sees."""
    places: Int[Tensor, " N"]
    """Where there is a symbol, as flat indices into B x T; rows beyond the last repeat 0."""
    targets: Int[Tensor, " N"]
    """These symbols; IGNORED in rows that only fill up."""
    words: float
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
        samples: str,
        ends: str,
        tokens_per_sample: int,
        fixed_shapes: bool,
    ) -> None:
        self._words, self._fixed_shapes = folder.vocabulary, fixed_shapes
        self._stream = Stream(
            folder.split(split).column("tokens"),
            folder.vocabulary,
            samples=samples,
            ends=ends,
            tokens_per_sample=tokens_per_sample,
        )
        self._begins_word = self._words.starts_word.copy()
        self._begins_word[self._words.sep] = True
        self.lengths: Numbers = self._stream.lengths
        options = (samples, ends, tokens_per_sample)
        self.fingerprint = fingerprint_of(folder.fingerprint, split, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> BlockBatch:
        """The samples side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        rows = self._stream.rows(ids)
        targets = rows.symbols[rows.inside]
        count = 0 if idle else len(targets)
        told = np.full_like(targets, IGNORED) if idle else targets
        return BlockBatch(
            inputs=Inputs(tokens=torch.from_numpy(rows.previous)),
            places=filled(np.flatnonzero(rows.inside), 0, self._fixed_shapes),
            targets=filled(told, IGNORED, self._fixed_shapes),
            words=0.0 if idle else float(self._begin_words(rows).sum()),
            weights={OBJECTIVE: float(count)},
            sentences=0 if idle else len(ids),
            tokens=count,
        )

    def _begin_words(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which targets do: by their mark, or behind an end, where some codecs leave it out."""
        behind_end = rows.previous[rows.inside] == self._words.sep
        marked: npt.NDArray[np.bool_] = self._begins_word[rows.symbols[rows.inside]]
        return marked | behind_end
