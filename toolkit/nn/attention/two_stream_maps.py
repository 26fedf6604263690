"""Attention maps of a word and a position stream, computed from both (TACO, 3.3 and 3.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.terms import ScoreTerm
from toolkit.nn.ops.attention import MASKED_SCORE
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.kernel_inputs import MapSource
from toolkit.nn.ops.kernels import triton_runs
from toolkit.nn.ops.mixed_attention import MixedAttention, mix_attention


class TwoStreamMaps(nn.Module, ABC):
    """Scores of the heads of both streams, words first.

    Padding is masked in the weights only: before a convolution, it would spread to other channels.
    """

    def __init__(
        self, word_terms: Sequence[ScoreTerm], position_terms: Sequence[ScoreTerm], dropout: float
    ) -> None:
        super().__init__()
        self.word_terms, self.position_terms = map(nn.ModuleList, (word_terms, position_terms))
        self.dropout = Dropout(dropout)

    def forward(
        self,
        words: AttentionInputs,
        positions: AttentionInputs,
        previous_scores: Float[Tensor, "B H S T"] | None,
    ) -> MixedAttention:
        """Scores before the softmax, and the weights of both streams."""
        word_maps = [term(words) for term in self.word_terms]
        position_maps = [term(positions) for term in self.position_terms]
        scores = self.combine(word_maps, position_maps, previous_scores)
        padding, masked = words.sequence.padding, scores
        if padding is not None:
            masked = scores + padding[:, None, None, :].to(scores.dtype) * MASKED_SCORE
        weights = self.dropout(masked.softmax(-1))
        # Not slices: their gradients would be padded with zeros and added.
        of_words, of_positions = weights.split((words.q.shape[1], positions.q.shape[1]), 1)
        return scores, of_words, of_positions

    @abstractmethod
    def combine(
        self, word_maps: list[Tensor], position_maps: list[Tensor], previous_scores: Tensor | None
    ) -> Tensor:
        """Scores from one map per term of each stream and, if any, the previous scores."""


class MixedMaps(TwoStreamMaps):
    """PReLU(W * [A_W; A_QR; A_RK; A_P; previous scores] + b), W a 1x1 convolution (TACO, 3.4).

    The channels are heads; the PReLU has one slope per output channel.
    """

    def __init__(
        self,
        word_terms: Sequence[ScoreTerm],
        position_terms: Sequence[ScoreTerm],
        dropout: float,
        *,
        word_heads: int,
        position_heads: int,
        uses_previous_scores: bool,
    ) -> None:
        super().__init__(word_terms, position_terms, dropout)
        heads = word_heads + position_heads
        channels = word_heads * len(word_terms) + position_heads * len(position_terms)
        self.mix = nn.Conv2d(channels + heads * uses_previous_scores, heads, 1)
        self.slope = nn.PReLU(heads)

    def forward(
        self,
        words: AttentionInputs,
        positions: AttentionInputs,
        previous_scores: Float[Tensor, "B H S T"] | None,
    ) -> MixedAttention:
        if not triton_runs(words.q.device, words.q.dtype):
            return super().forward(words, positions, previous_scores)
        sources = find_sources(self.word_terms, words)
        sources += find_sources(self.position_terms, positions)
        if previous_scores is not None:
            sources.append(MapSource(previous_scores))
        bias = self.mix.bias
        assert bias is not None, "the convolution has one"
        return mix_attention(
            sources,
            self.mix.weight.flatten(1),
            bias,
            self.slope.weight,
            words.sequence.padding,
            dropout=self.dropout.effective_rate,
            word_heads=words.q.shape[1],
        )

    def combine(
        self, word_maps: list[Tensor], position_maps: list[Tensor], previous_scores: Tensor | None
    ) -> Tensor:
        maps = word_maps + position_maps + ([] if previous_scores is None else [previous_scores])
        weight, bias, dtype = self.mix.weight, self.mix.bias, maps[0].dtype
        assert bias is not None, "the convolution has one"
        mixed = F.conv2d(torch.cat(maps, 1), weight.to(dtype), bias.to(dtype))
        return F.prelu(mixed, self.slope.weight.to(dtype))


def find_sources(terms: nn.ModuleList, p: AttentionInputs) -> list[MapSource]:
    """Of each term, for every sentence of the batch."""
    sources = [term.source(p) for term in cast("Iterable[ScoreTerm]", terms)]
    return [MapSource(s.tensor.expand(p.q.shape[0], -1, -1, -1), s.kind) for s in sources]


class SummedMaps(TwoStreamMaps):
    """[A_W + A_QR + A_RK; A_P] + previous scores: TACO without its convolution (section 4.2)."""

    def combine(
        self, word_maps: list[Tensor], position_maps: list[Tensor], previous_scores: Tensor | None
    ) -> Tensor:
        scores = torch.cat([reduce(add, word_maps), reduce(add, position_maps)], 1)
        return scores if previous_scores is None else scores + previous_scores
