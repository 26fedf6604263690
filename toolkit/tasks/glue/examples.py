"""Texts and pairs put into batches with their answers.

N rows of the batch, as many as B
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import (
    SPECIAL_OF_PAIR,
    SPECIAL_OF_SINGLE,
    PairBatch,
    join_pairs,
    truncate_longest_first,
)
from toolkit.data.samples.text_samples import describe_truncation
from toolkit.models.interface import Inputs
from toolkit.tasks.glue.config import GlueConfig

OBJECTIVE = "label"
Numbers = npt.NDArray[np.int64]


class GlueBatch(NamedTuple):
    """Texts or pairs, and their answers."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """First token of each row, as flat indices into B x S."""
    targets: Int[Tensor, " N"] | Float[Tensor, " N"]
    """Class of each, IGNORED where it is not known; or number, NaN where it is not."""
    row_ids: Int[Tensor, " N"]
    """Number of each in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class GlueExamples:
    """The rows of one split."""

    def __init__(self, c: GlueConfig, split: ClassificationSplit, *, training: bool) -> None:
        if training and not split.labeled.all():
            raise ToolkitError(
                f"rows to train on must have answers, but split {split.name!r} of "
                f"{split.folder.name} has none. Choose another --train-subset."
            )
        self.split = split
        most = c.tokens_per_sample - (SPECIAL_OF_PAIR if split.second else SPECIAL_OF_SINGLE)
        first = split.first.lengths.astype(np.int64)
        second = split.second.lengths.astype(np.int64) if split.second else np.zeros_like(first)
        self._first, self._second = truncate_longest_first(first, second, most)
        kept = self._first + self._second
        self.lengths = kept + c.tokens_per_sample - most
        self.remark = describe_truncation(first + second, kept)
        fingerprint = split.folder.fingerprint
        self.fingerprint = compute_fingerprint(fingerprint, split.name, c.tokens_per_sample)

    def collate(self, ids: Numbers, epoch: int | None) -> GlueBatch:
        """The rows side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        split, texts = self.split, self._texts(ids)
        known = split.labeled[ids] & (not idle)
        nothing = np.nan if split.is_regression else IGNORED
        targets = np.where(known, split.answers[ids], nothing)
        width = texts.tokens.shape[1]
        return GlueBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(ids)) * width,
            targets=torch.from_numpy(
                targets.astype(np.float32 if split.is_regression else np.int64)
            ),
            row_ids=torch.from_numpy(np.full(1, -1) if idle else ids),
            weights={OBJECTIVE: float(known.sum())},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int(texts.lengths.sum()),
        )

    def _texts(self, ids: Numbers) -> PairBatch:
        split = self.split
        first = split.first.take(ids, self._first[ids])
        second = split.second.take(ids, self._second[ids]) if split.second else None
        return join_pairs(first, second, split.vocabulary)


def to_inputs(texts: PairBatch) -> Inputs:
    """Without what is the same everywhere."""
    parts: dict[str, Any] = {"segments": texts.segments, "padding": texts.padding}
    found = {n: torch.from_numpy(part) if part.any() else None for n, part in parts.items()}
    return Inputs(tokens=torch.from_numpy(texts.tokens), **found)
