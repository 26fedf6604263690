"""Kernels: functions of the offset j - i, for relative position terms and convolutions.

Added to the scores, a kernel is a relative position term; normalized separately, it is a
lightweight convolution (Chang et al. 2021, section 2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs, Offsets, sum_by_offset
from toolkit.nn.ops.attention import MASKED_SCORE
from toolkit.nn.ops.batched_products import multiply_by_head
from toolkit.nn.ops.convolution import SeparableConvolution
from toolkit.nn.ops.kernel_inputs import OffsetTables
from toolkit.nn.ops.offsets.taps import LinearMap


class Kernel(nn.Module, ABC):
    """The taps of each position: one number per offset within the radius."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H #S R"]:
        """The taps of each head, at every position or the same for all."""

    def tables(self) -> OffsetTables | None:
        """What attention in one kernel computes the taps of queries from; None if it cannot."""
        return None

    def key_tables(self) -> OffsetTables | None:
        """The same for taps of keys."""
        return None


class NormalizedKernel(Kernel):
    """softmax(beta_h) over the taps, the same at every position (Wu et al. 2019, eq. 3)."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.empty(heads, size))
        nn.init.xavier_uniform_(self.taps)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H 1 R"]:
        return self.taps.softmax(-1)[None, :, None]


class OffsetKernel(Kernel):
    """scale x_i . y_m for all offsets m in use, x the queries or the keys."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    @abstractmethod
    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        """x and y."""

    def operands(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        """x and scale y, whose products are the taps."""
        x, vectors = self.factors(p)
        return x, (self.scale * vectors).to(x.dtype)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S O"]:
        x, vectors = self.factors(p) if p.x.is_cuda else self.operands(p)
        by_head = x.transpose(0, 1).flatten(1, 2)  # (B, H, S, K) -> (H, BS, K)
        if p.x.is_cuda:
            taps = multiply_by_head(by_head[None], vectors[None].to(x.dtype), self.scale).squeeze(0)
        else:
            taps = by_head @ vectors.mT
        return taps.unflatten(1, (x.shape[0], -1)).transpose(0, 1)  # (H, BS, O) -> (B, H, S, O)


class SharedKernel(OffsetKernel):
    """x_i . (W r_{j-i}) / sqrt(K), with vectors r shared by the layers (He et al. 2021, eq. 4), x
    the query or the key. Only the vectors of offsets in use are projected.
    """

    def __init__(self, heads: int, head_width: int, relative_width: int) -> None:
        super().__init__(1 / math.sqrt(head_width))
        self.heads = heads
        self.project = nn.Linear(relative_width, heads * head_width, bias=False)

    @abstractmethod
    def content_vectors(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """x: the queries or the keys."""

    def offset_vectors(self, p: AttentionInputs) -> Float[Tensor, "R E"]:
        """r of each offset in use."""
        vectors = p.sequence.offset_vectors
        assert vectors is not None, "the encoder passes its offset vectors to the layers"
        return vectors

    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H R K"]]:
        x, projected = self.content_vectors(p), self.project(self.offset_vectors(p))
        return x, projected.unflatten(-1, (self.heads, -1)).transpose(0, 1)


class SharedQueryKernel(SharedKernel):
    """q_i . (W r_{j-i}) / sqrt(K): content-to-position."""

    def content_vectors(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return p.term_queries


class SharedKeyKernel(SharedKernel):
    """k_j . (W r_{i-j}) / sqrt(K): position-to-content."""

    def content_vectors(self, p: AttentionInputs) -> Float[Tensor, "B H T K"]:
        return p.term_keys


class TokenKernel(Kernel):
    """softmax(W_f q_i + b_f) over the taps of each head, from the token only (Jiang et al. 2020,
    eq. 3; Wu et al. 2019).

    W_f is dense: the taps of a head depend on the vectors of all heads, as in ConvBERT's code; the
    paper's eq. 3 and 4 give each head a separate matrix. With `renormalize` the softmax is over the
    taps inside the sentence (Chang et al. 2021); without, the weight outside is lost.
    """

    def __init__(
        self,
        heads: int,
        head_width: int,
        radius: int,
        *,
        renormalize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.radius, self.renormalize = heads, radius, renormalize
        self.generate = nn.Linear(heads * head_width, heads * (2 * radius + 1), bias=bias)

    def kernel_input(self, p: AttentionInputs) -> Float[Tensor, "B S W"]:
        """The vectors of all heads, concatenated, that the taps are computed from: q."""
        return p.term_queries.transpose(1, 2).flatten(2)  # (B, H, S, K) -> (B, S, HK)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S R"]:
        taps = self.generate(self.kernel_input(p)).unflatten(-1, (self.heads, -1))
        if self.renormalize:
            outside = p.sequence.padding
            if outside is None:
                outside = torch.zeros(1, p.x.shape[1], dtype=torch.bool, device=p.x.device)
            outside = F.pad(outside, (self.radius, self.radius), value=True)
            outside = outside.unfold(1, 2 * self.radius + 1, 1)  # (#B, S, R)
            taps = taps.masked_fill(outside[:, :, None], MASKED_SCORE)
        # Taps first: softmax over a short last axis takes 5 times as long on a CPU.
        taps = taps.permute(3, 0, 2, 1).contiguous()  # (B, S, H, R) -> (R, B, H, S)
        weights = taps.softmax(0, dtype=taps.dtype)  # autocast would convert to fp32 and back
        return weights.permute(1, 2, 3, 0)  # (R, B, H, S) -> (B, H, S, R)


class SpanKernel(TokenKernel):
    """softmax(W_f (q_i * ks_i)), ks a separable convolution of the input (Jiang et al., eq. 4)."""

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        radius: int,
        *,
        renormalize: bool = False,
        depthwise_bias: bool = False,
    ) -> None:
        super().__init__(heads, head_width, radius, renormalize=renormalize)
        self.span = SeparableConvolution(
            width, heads * head_width, radius, depthwise_bias=depthwise_bias
        )

    def kernel_input(self, p: AttentionInputs) -> Float[Tensor, "B S W"]:
        return super().kernel_input(p) * self.span(p.x)


def tap_count(radius: int, left_only: bool) -> int:
    """Number of learned taps; with `left_only` those on the right are omitted."""
    return radius + 1 if left_only else 2 * radius + 1


def init_directions(head_width: int, radius: int, *, left_only: bool = False) -> nn.Parameter:
    """U(-1, 1) / sqrt(R), torch's default for a [K, R] matrix, as in the authors' code."""
    table = nn.Parameter(torch.empty(head_width, tap_count(radius, left_only)))
    nn.init.kaiming_uniform_(table, a=math.sqrt(5))
    return table


class OffsetValues(nn.Module):
    """sum_j w_ij a_{clip(j - i)}, one vector a for each offset within the radius, of all heads."""

    def __init__(self, head_width: int, radius: int) -> None:
        super().__init__()
        self.radius = radius
        self.vectors = init_directions(head_width, radius)  # (K, R)

    def forward(
        self, weights: Float[Tensor, "B H S T"], offsets: Offsets
    ) -> Float[Tensor, "B H S K"]:
        """sum_j w_ij a_{clip(j - i)} for the attention weights w."""
        by_offset = sum_by_offset(weights, offsets, self.radius)
        return by_offset @ self.vectors.to(weights.dtype).mT  # (B, H, S, R) @ (R, K)

    def table(self, offsets: Offsets) -> tuple[Float[Tensor, "K R"], tuple[LinearMap, LinearMap]]:
        """The vectors, and the functions that read and sum them by offset."""
        return self.vectors, offsets.tap_maps(self.radius)
