"""Batched products of heads for GPUs, with operands that are copied once at most.

B batch   H heads   S queries   T keys   K head width

In memory heads come first, so that sentences and heads are one axis for the product and slices of
heads are contiguous. Widths are filled up with zeros to whole 16 bytes, which fast kernels require.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ALIGNED_BYTES = 16


def heads_first(x: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H S K"]:
    """The same numbers with the axis of heads first in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def as_batch(x: Float[Tensor, "B H S K"]) -> Float[Tensor, "N S K"]:
    """Heads and sentences as one axis; a view if heads come first in memory."""
    return x.transpose(0, 1).flatten(0, 1)


def as_heads(x: Float[Tensor, "N S K"], heads: int) -> Float[Tensor, "B H S K"]:
    """Heads that are outermost in the batch as the second axis, without a copy."""
    return x.unflatten(0, (heads, -1)).transpose(0, 1)


def multiply_batch(
    a: Float[Tensor, "N S K"], b: Float[Tensor, "N K T"], scale: float
) -> Float[Tensor, "N S T"]:
    """scale a b, in one operation."""
    out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
    return torch.baddbmm(out, a, b, beta=0, alpha=scale, out=out)


def multiply_by_head(
    q: Float[Tensor, "B H S K"], k: Float[Tensor, "B H T K"], scale: float
) -> Float[Tensor, "B H S T"]:
    """scale q k^T, heads first in memory."""
    scores: Tensor = _ScaledProduct.apply(as_batch(q), as_batch(k), scale)
    return as_heads(scores, q.shape[1])


class _ScaledProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, scale):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(q, k)
        ctx.scale = scale
        return multiply_batch(q, k.mT, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k = ctx.saved_tensors
        of_q = multiply_batch(gradient, k, ctx.scale)
        return of_q, multiply_batch(gradient.mT, q, ctx.scale), None


def average_by_head(
    weights: Float[Tensor, "B H S T"], v: Float[Tensor, "B H T K"]
) -> Float[Tensor, "B S _"]:
    """sum_j w_ij v_j, all heads side by side."""
    return _Average.apply(weights.to(v.dtype), v)


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights, v):  # type: ignore[no-untyped-def]
        weights, padded = as_batch(weights), pad_width(v)
        ctx.save_for_backward(weights, padded)
        ctx.sizes = v.shape[1], v.shape[3]
        context = as_heads(weights @ padded, v.shape[1])[..., : v.shape[3]]
        return context.transpose(1, 2).flatten(2)  # (B, H, S, K) -> (B, S, HK)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        weights, padded = ctx.saved_tensors
        heads, width = ctx.sizes
        g = pad_width(gradient.unflatten(-1, (heads, width)).transpose(1, 2))
        of_v = as_heads(weights.mT @ g, heads)[..., :width]
        return as_heads(g @ padded.mT, heads), of_v


def pad_width(x: Float[Tensor, "B H S K"]) -> Float[Tensor, "N S P"]:
    """A copy as one batch, with zeros up to an aligned width."""
    batch, heads, length, width = x.shape
    missing = -width % (ALIGNED_BYTES // x.element_size())
    padded = x.new_empty(heads, batch, length, width + missing)
    padded[..., :width].copy_(x.transpose(0, 1))
    if missing:
        padded[..., width:].zero_()
    return padded.flatten(0, 1)
