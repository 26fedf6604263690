"""Projections of the layer input to queries, keys and values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.attention.terms import ContentChange
from toolkit.nn.init import glorot_normal_
from toolkit.nn.ops.batched_products import heads_first
from toolkit.nn.ops.convolution import DepthwiseConvolution, mask_padding

PROJECTIONS = ("query", "key", "value")


class Projections(nn.Module, ABC):
    """Queries, keys and values of the layer input."""

    keeps_rows: bool = False
    """Whether they are parts of `AttentionInputs.qkv`, for attention in one kernel."""
    changes_content: bool = False
    """Whether terms read other queries and keys than the product q . k does."""
    looks_back: bool = False
    """Whether a key depends on the token to its left in the tensors."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        """The inputs of attention: queries, keys and values of the layer input x."""


class LinearProjections(Projections):
    """q, k, v = W_q x + b_q, W_k x + b_k, W_v x + b_v, in one product.

    Heads have width / heads columns, or `head_width`. `convolution_values` are a second v for
    convolutional heads (Jiang et al. 2020, code). `changes` are made to queries and keys of q . k.
    """

    keeps_rows = True

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        *,
        convolution_values: bool = False,
        changes: Sequence[ContentChange] = (),
    ) -> None:
        super().__init__()
        self.heads, self.parts = heads, 3 + convolution_values
        self.qkv = nn.Linear(width, self.parts * heads * (head_width or width // heads))
        self.changes, self.changes_content = nn.ModuleList(changes), bool(changes)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        qkv = self.qkv(x).unflatten(-1, (self.parts, self.heads, -1))
        parts = qkv.permute(2, 0, 3, 1, 4)  # (B, S, P, H, K) -> (P, B, H, S, K)
        if sequence.rows is None:
            parts = parts.contiguous()
        q, k, v, *convolution_values = parts
        p = AttentionInputs(q, k, v, x, sequence, *convolution_values)
        for change in self.changes:
            p = change(p)
        if sequence.rows is None:
            return p
        if self.changes_content:  # the kernel reads one tensor
            qkv = torch.stack([y.transpose(1, 2) for y in (p.q, p.k, p.v)], 2)
        return p.replace(qkv=qkv)


class GatedProjection(Projections):
    """q = k = v = (W x + b) * sigmoid(W' x + b') (Wu et al. 2019, Fig. 2; GLU, Dauphin et al.
    2017); W x + b if not `gated`.
    """

    def __init__(self, width: int, heads: int, *, gated: bool) -> None:
        super().__init__()
        self.heads, self.gated = heads, gated
        self.project = nn.Linear(width, (1 + gated) * width)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        y = self.project(x)
        v = split_heads(nn.functional.glu(y) if self.gated else y, self.heads)
        return AttentionInputs(v, v, v, x, sequence)


class StreamProjections(Projections):
    """q, k, v of a stream, with heads of `head_width`, for v of width / heads (TACO, eq. 2)."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.parts = heads, [heads * head_width, heads * head_width, width]
        self.qkv = nn.Linear(width, sum(self.parts))

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        q, k, v = (split_heads(y, self.heads) for y in self.qkv(x).split(self.parts, -1))
        if x.is_cuda:  # several products read them
            q, k = heads_first(q), heads_first(k)
        return AttentionInputs(q, k, v, x, sequence)


class ConvolvedProjections(Projections):
    """q, k, v, with half of the heads convolved in the projections that `convolve` names (Chang et
    al. 2021, section 5).

    conv half = Linear(d -> d/2)(depthwise(x)), linear half = Linear(d -> d/2)(x), in this order,
    without an activation in between, as in the authors' code. x is zero at padding for all of them.
    """

    def __init__(self, width: int, heads: int, radius: int, convolve: Collection[str]) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleDict(
            {
                part: HalfConvolved(width, radius) if part in convolve else nn.Linear(width, width)
                for part in PROJECTIONS
            }
        )

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        masked = mask_padding(x, sequence.padding)
        q, k, v = (split_heads(self.parts[part](masked), self.heads) for part in PROJECTIONS)
        return AttentionInputs(q, k, v, x, sequence)


class HalfConvolved(nn.Module):
    """concat(U depthwise(x), V x): the first heads are the convolutional ones."""

    def __init__(self, width: int, radius: int) -> None:
        super().__init__()
        self.depthwise = DepthwiseConvolution(width, radius)
        self.convolved = nn.Linear(width, width // 2)
        self.linear = nn.Linear(width, width - width // 2)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return torch.cat([self.convolved(self.depthwise(x)), self.linear(x)], dim=-1)


def split_heads(y: Float[Tensor, "B S W"], heads: int) -> Float[Tensor, "B H S K"]:
    """A projection split into heads."""
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, S, HK) -> (B, H, S, K)


class TemperedProjections(Projections):
    """q, k, v = g_q W_q x, g_k W_k x, g_v W_v x, without biases (Dufter et al. 2020, section 2.4).

    Each head has three scalars g, which scale the matrices; without `temperature` they are 1.
    """

    def __init__(self, width: int, heads: int, *, temperature: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.temperature = nn.Parameter(torch.ones(3, heads)) if temperature else None
        for head in self.qkv.weight.detach().split(width // heads):
            glorot_normal_(head, width, width // heads)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        weight: Tensor = self.qkv.weight
        if self.temperature is not None:
            by_head = weight.unflatten(0, (3 * self.heads, -1))
            weight = (self.temperature.flatten()[:, None, None] * by_head).flatten(0, 1)
        y = nn.functional.linear(x, weight).unflatten(-1, (3, self.heads, -1))
        q, k, v = y.permute(2, 0, 3, 1, 4).contiguous()  # (B, S, P, H, K) -> (P, B, H, S, K)
        return AttentionInputs(q, k, v, x, sequence)
