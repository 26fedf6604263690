"""Rows of the task glue: single texts or pairs with their labels, as batches.

N rows of the batch, as many as B
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.config.declared import OF_MODEL, AtLeast, Rate
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
from toolkit.models.heads import HeadKind
from toolkit.models.interface import Inputs
from toolkit.tasks.capabilities import FeatureOptions
from toolkit.tasks.examples import Examples, SplitSource


@dataclass(frozen=True, kw_only=True)
class GlueConfig(FeatureOptions, section="task"):
    """Options of the task glue."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What the label is predicted from. pooled: tanh of a linear map of the first token's last
    state, as in BERT and Chang et al. 2021; plain: that state itself, as in ConvBERT; gelu: like
    pooled with gelu in place of tanh, as in the ELECTRA and ConvBERT classifiers of Transformers.
    TACO's state concatenates its token and position streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(5, or_zero=True)] = 0
    """Maximum number of tokens per text or pair, special tokens included; longer ones are truncated
    token by token at the end of the longer text. 0 for 128, or the architecture's
    maximum if less."""


OBJECTIVE = "label"


class GlueBatch(NamedTuple):
    """Texts or pairs, and their labels."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat index of each row's first token into B x S."""
    targets: Int[Tensor, " N"] | Float[Tensor, " N"]
    """Class, or IGNORED if unknown; in regression the value, or NaN if unknown."""
    row_ids: Int[Tensor, " N"]
    """Index of each row in the split; -1 for an idle rank."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class GlueExamples(Examples[GlueBatch]):
    """The rows of one split, truncated at the end of the longer text."""

    idle_values: ClassVar[Mapping[str, int]] = {"targets": IGNORED, "row_ids": -1}

    def __init__(self, c: GlueConfig, source: SplitSource) -> None:
        split = ClassificationSplit(source.folder, source.name)
        source.check_labeled(bool(split.labeled.all()), "rows without labels")
        self.split = split
        room = c.tokens_per_sample - (SPECIAL_OF_PAIR if split.second else SPECIAL_OF_SINGLE)
        first = split.first.lengths.astype(np.int64)
        second = split.second.lengths.astype(np.int64) if split.second else np.zeros_like(first)
        self._first, self._second = truncate_longest_first(first, second, room)
        kept = self._first + self._second
        self.lengths = kept + c.tokens_per_sample - room
        self.remark = describe_truncation(first + second, kept)
        self.truncated = int(np.count_nonzero(first + second > kept))
        options = (split.name, c.tokens_per_sample)
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, *options)

    def make_batch(self, ids: IntArray, epoch: int | None) -> GlueBatch:
        ids = ids % len(self)
        split, labeled = self.split, self.split.labeled[ids]
        first = split.first.take(ids, self._first[ids])
        second = split.second.take(ids, self._second[ids]) if split.second else None
        texts = join_pairs(first, second, split.vocabulary)
        unknown, dtype = (np.nan, np.float32) if split.is_regression else (IGNORED, np.int64)
        targets = np.where(labeled, split.answers[ids], unknown).astype(dtype)
        return GlueBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(ids)) * texts.tokens.shape[1],
            targets=torch.from_numpy(targets),
            row_ids=torch.from_numpy(ids),
            weights={OBJECTIVE: float(labeled.sum())},
            sentences=len(ids),
            tokens=int(texts.lengths.sum()),
        )


def to_inputs(texts: PairBatch) -> Inputs:
    """Segments and padding are None if they are zero everywhere."""
    parts: tuple[Any, ...] = texts.segments, texts.padding
    segments, padding = (torch.from_numpy(part) if part.any() else None for part in parts)
    return Inputs(torch.from_numpy(texts.tokens), segments=segments, padding=padding)
