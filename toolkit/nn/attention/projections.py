"""From layer input to queries, keys and values."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.init import glorot_normal_
from toolkit.nn.ops.depthwise import DepthwiseConvolution, mask_padding

PROJECTIONS = ("query", "key", "value")


class LinearProjections(nn.Module):
    """q, k, v = W_q x + b_q, W_k x + b_k, W_v x + b_v, in one product.

    Of heads as wide together as the model, or of any width; with `nearby`, the product gives a
    second v, for heads that convolve (Jiang et al. 2020, as in the authors' code).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        *,
        convolution_values: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.parts = heads, 3 + convolution_values
        self.qkv = nn.Linear(width, self.parts * heads * (head_width or width // heads))

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        parts = self.qkv(x).unflatten(-1, (self.parts, self.heads, -1))
        q, k, v, *more = parts.permute(
            2, 0, 3, 1, 4
        ).contiguous()  # (B, S, 3, H, K) -> 3 (B, H, S, K)
        return AttentionInputs(q, k, v, x, sequence, *more)


class GatedProjection(nn.Module):
    """(W x + b) * sigmoid(W' x + b'), which is query, key and value alike (Wu et al. 2019, figure
    2; GLU, Dauphin et al. 2017); not `gated`, W x + b alone.
    """

    def __init__(self, width: int, heads: int, *, gated: bool) -> None:
        super().__init__()
        self.heads, self.gated = heads, gated
        self.project = nn.Linear(width, 2 * width if gated else width)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        y = self.project(x)
        v = split_heads(nn.functional.glu(y) if self.gated else y, self.heads)
        return AttentionInputs(v, v, v, x, sequence)


class StreamProjections(nn.Module):
    """q, k, v of one of two streams: heads of q and k have a separate width.

    The values keep the stream's width, so that a head of them has width / heads (TACO, eq. 2).
    """

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.parts = heads, [heads * head_width, heads * head_width, width]
        self.qkv = nn.Linear(width, sum(self.parts))

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        q, k, v = (split_heads(y, self.heads) for y in self.qkv(x).split(self.parts, -1))
        return AttentionInputs(q, k, v, x, sequence)


class ConvolvedProjections(nn.Module):
    """Half of the heads of each named part see their neighbors (Chang et al. 2021, section 5).

    conv half = Linear(d -> d/2)(depthwise(x)), linear half = Linear(d -> d/2)(x), in this order;
    no activation in between, as in the authors' code. x is zero at padding before all of them.
    """

    def __init__(self, width: int, heads: int, radius: int, convolve: Collection[str]) -> None:
        super().__init__()
        if heads % 2:
            raise ToolkitError(
                f"heads must be even where projections are convolved, but is {heads}. "
                "Change arch.heads or leave arch.convolve empty."
            )
        self.heads = heads
        self.parts = nn.ModuleDict(
            {
                part: HalfConvolved(width, radius) if part in convolve else nn.Linear(width, width)
                for part in PROJECTIONS
            }
        )

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        seen = mask_padding(x, sequence.padding)
        q, k, v = (split_heads(self.parts[part](seen), self.heads) for part in PROJECTIONS)
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
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, S, HK) -> (B, H, S, K)


QKV_COUNT = 3


class TemperedProjections(nn.Module):
    """q, k, v = g_q W_q x, g_k W_k x, g_v W_v x, without biases (Dufter et al. 2020, section 2.4).

    Each head has three numbers g, of which g_q g_k is the temperature of its softmax. They scale
    the matrices, which have fewer numbers than what comes out. Without `temperature` they are 1.
    """

    def __init__(self, width: int, heads: int, *, temperature: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, QKV_COUNT * width, bias=False)
        self.temperature = nn.Parameter(torch.ones(QKV_COUNT, heads)) if temperature else None
        for head in self.qkv.weight.detach().split(width // heads):
            glorot_normal_(head, width, width // heads)

    def weight(self) -> Float[Tensor, "D3 D"]:
        weight = self.qkv.weight
        if self.temperature is None:
            return weight
        by_head = weight.unflatten(0, (QKV_COUNT * self.heads, -1))
        return (self.temperature.flatten()[:, None, None] * by_head).flatten(0, 1)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        together = nn.functional.linear(x, self.weight())
        parts = together.unflatten(-1, (QKV_COUNT, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4).contiguous()  # (B, S, 3, H, K) -> (3, B, H, S, K)
        return AttentionInputs(q, k, v, x, sequence)
