"""Sentences twice, with masked tokens and with masked positions (TACO, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.criteria import IGNORED
from toolkit.data.samples.position_masking import PositionMasking
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.masked_examples import MaskingExamples
from toolkit.tasks.pretraining.position_config import MaskedPositionConfig


class MaskedPositionsBatch(NamedTuple):
    """Sentences with masked tokens, then the same with masked positions: one pass for both."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions of the first half, then of the second half."""
    token_targets: Int[Tensor, " M"]
    """Original tokens of the first; IGNORED in padding rows."""
    position_targets: Int[Tensor, " P"]
    """Original positions of the second; IGNORED in padding rows."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MaskedPositionExamples(MaskingExamples[MaskedPositionsBatch]):
    """The sentences of one split; every epoch masks other tokens and positions."""

    idle_values: ClassVar[Mapping[str, int]] = {
        "token_targets": IGNORED,
        "position_targets": IGNORED,
    }

    def __init__(self, config: MaskedPositionConfig, source: SplitSource) -> None:
        super().__init__(config, source)
        self._objectives = config.objective_names
        self._positions = PositionMasking(
            tokens_per_sample=config.tokens_per_sample,
            rate=config.position_rate,
            span_max=config.position_span_max,
            span_p=config.position_span_p,
            hidden_rate=config.hidden_position_rate,
            shuffled_rate=config.shuffled_position_rate,
            random_below=config.max_position + 1 if config.position_range == "full_table" else None,
        )

    def make_batch(self, ids: IntArray, epoch: int | None) -> MaskedPositionsBatch:
        make = {"mlm": self.mask_tokens, "mpm": self.mask_positions}
        return concatenate_halves({name: make[name](ids, epoch) for name in self._objectives})

    def mask_positions(self, ids: IntArray, epoch: int | None) -> MaskedBatch:
        """Sentences with masked positions; the targets are the original ones."""
        sentences = self.read_sentences(ids)
        positions, masked = self._positions.apply(sentences, self.noise(ids, epoch))
        targets, tokens = masked.positions, sentences.tokens
        return self.to_batch("mpm", sentences, masked, targets, tokens=tokens, positions=positions)


def concatenate_halves(halves: dict[str, MaskedBatch]) -> MaskedPositionsBatch:
    """One batch of both halves, or of the only one; masked tokens keep their positions."""
    empty = torch.zeros(0, dtype=torch.long)
    tokens, positions = halves.get("mlm"), halves.get("mpm")
    first, *_ = halves.values()
    inputs, selected = first.inputs, first.selected
    if tokens and positions:
        inputs = concatenate_inputs(tokens.inputs, positions.inputs)
        selected = torch.cat([tokens.selected, positions.selected + tokens.inputs.tokens.numel()])
    return MaskedPositionsBatch(
        inputs=inputs,
        selected=selected,
        token_targets=tokens.targets if tokens else empty,
        position_targets=positions.targets if positions else empty,
        weights={name: half.weights[name] for name, half in halves.items()},
        sentences=first.sentences,
        tokens=sum(half.tokens for half in halves.values()),
    )


def concatenate_inputs(first: Inputs, second: Inputs) -> Inputs:
    """Two batches of the same sentences as one."""
    assert second.positions is not None, "the second half has masked positions"
    in_order = torch.arange(first.tokens.shape[1]).expand_as(first.tokens)
    padding, segments = first.padding, first.segments
    return Inputs(
        tokens=torch.cat([first.tokens, second.tokens]),
        positions=torch.cat([in_order, second.positions]),
        segments=None if segments is None else torch.cat([segments, segments]),
        padding=None if padding is None else torch.cat([padding, padding]),
        max_position=second.max_position,
    )
