"""A vector per head, added to all tokens, with a fast gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def add_by_head(
    x: Float[Tensor, "B H S K"], bias: Float[Tensor, "H 1 K"]
) -> Float[Tensor, "B H S K"]:
    """x + bias; torch's sum over two separate axes takes ten times as long in bf16 on a CPU."""
    if torch.compiler.is_compiling():
        return x + bias.to(x.dtype)
    y: Tensor = _AddByHead.apply(x, bias)
    return y


class _AddByHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):  # type: ignore[no-untyped-def]
        ctx.dtype = bias.dtype
        return x + bias.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient, gradient.sum(2, keepdim=True).sum(0, dtype=ctx.dtype)
