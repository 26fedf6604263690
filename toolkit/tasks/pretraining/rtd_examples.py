"""Sentences for a generator to fill in and a discriminator to classify."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.samples.masking import SAMPLE
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.masked_examples import MaskingExamples
from toolkit.tasks.pretraining.masking_config import MaskingConfig


class ReplacedTokensBatch(NamedTuple):
    """Sentences with masked tokens, and random numbers to sample replacements with."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions into B x S; padding rows repeat index 0."""
    targets: Int[Tensor, " N"]
    """Original token of each selected position; IGNORED (-100) in padding rows."""
    draws: Float[Tensor, " N"]
    """A uniform number in [0, 1) per row; a position selected twice has the same twice."""
    weights: dict[str, float]
    sentences: int
    tokens: int

    @property
    def original(self) -> Int[Tensor, " BS"]:
        """The original sentences, flattened."""
        return self.with_tokens(self.targets)

    def with_tokens(self, new: Int[Tensor, " N"]) -> Int[Tensor, " BS"]:
        """The sentences with new tokens at the selected positions; padding rows do nothing."""
        tokens = self.inputs.tokens.flatten()
        kept = tokens.index_select(0, self.selected)
        return tokens.scatter(0, self.selected, torch.where(self.targets == IGNORED, kept, new))

    def labels(self, tokens: Int[Tensor, " BS"]) -> Int[Tensor, " BS"]:
        """1 where a token is not the original; IGNORED in padding and for an idle rank."""
        labels = (tokens != self.original).long()
        if not self.weights["rtd"]:
            return torch.full_like(labels, IGNORED)
        padding = self.inputs.padding
        return labels if padding is None else labels.masked_fill(padding.flatten(), IGNORED)


class ReplacedTokenExamples(MaskingExamples[ReplacedTokensBatch]):
    """The sentences of one split; every epoch masks other tokens.

    The generator's loss sums over the selected positions, the discriminator's over all tokens.
    """

    def __init__(self, config: MaskingConfig, source: SplitSource) -> None:
        check_mask_token(source.folder.vocabulary, source.folder.name)
        super().__init__(config, source)

    def make_batch(self, ids: IntArray, epoch: int | None) -> ReplacedTokensBatch:
        batch = self.mask_tokens(ids, epoch)
        rows, positions = np.divmod(batch.selected.numpy(), batch.inputs.tokens.shape[1])
        draws = self.noise(ids, epoch).at(SAMPLE, rows, positions)
        return ReplacedTokensBatch(
            inputs=batch.inputs,
            selected=batch.selected,
            targets=batch.targets,
            draws=torch.from_numpy(draws.astype(np.float32)),
            weights={**batch.weights, "rtd": float(batch.tokens)},
            sentences=batch.sentences,
            tokens=batch.tokens,
        )


def check_mask_token(vocabulary: Vocabulary, name: str) -> None:
    """[MASK] must differ from the other special tokens: the generator predicts what it hides."""
    others = {role: i for role, i in vocabulary.roles.items() if role != "mask"}
    same = [role for role, i in others.items() if i == vocabulary.mask]
    if same:
        raise ToolkitError(
            f"Task rtd requires a vocabulary with a separate [MASK] token, but that of {name} uses "
            f"{vocabulary.symbols[vocabulary.mask]!r} also as {same[0]}. Run toolkit-preprocess "
            f"with a vocabulary that has one."
        )
