"""Gradients of biases on a GPU, from the kernel that computes those of the linear map's result.

The gradient of b in y = W x + b is that of y, summed over all rows, for which torch reads it once
more. Here the kernel of what follows, GELU or LN(x + dropout(y)), adds up the columns of the
gradient that it writes; where b is added, in the product, it has no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.kernels import define, triton_runs

PROGRAMS = 128
"""At most, over the rows of GELU's gradient; each adds up those of its rows."""


def sums_bias(linear: nn.Module, x: Float[Tensor, "*rows I"]) -> bool:
    """Whether what follows a linear map of x computes the gradient of its bias."""
    if torch.compiler.is_compiling() or not fast("bias_sums") or type(linear) is not nn.Linear:
        return False
    learned = torch.is_grad_enabled() and linear.bias is not None and linear.bias.requires_grad
    return learned and triton_runs(x.device, x.dtype)


def detach_bias(linear: Any, x: Float[Tensor, "*rows I"]) -> Float[Tensor, "*rows O"]:
    """W x + b, without a gradient of b."""
    return F.linear(x, linear.weight, linear.bias.detach())


def gelu(y: Float[Tensor, "*rows O"], bias: Float[Tensor, " O"]) -> Float[Tensor, "*rows O"]:
    """gelu(y), y the result of a linear map that had this bias, of which y has no gradient."""
    return _Gelu.apply(y, bias)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(y)
        ctx.dtype = bias.dtype
        return F.gelu(y)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (y,) = ctx.saved_tensors
        of_y, sums = gelu_backward(gradient.contiguous(), y)
        return of_y, sums.sum(0, dtype=ctx.dtype)


@define("toolkit::gelu_backward", schema="(Tensor gradient, Tensor x) -> (Tensor, Tensor)")
def gelu_backward(gradient: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of x, and summands (P, O) of its sums over all rows."""
    from toolkit.nn.ops.kernels.gelu import launch

    of_x, sums = allocate_gradients(gradient, x)
    launch(of_x, sums, gradient, x)
    return of_x, sums


@gelu_backward.register_fake
def allocate_gradients(gradient: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes of the results, for compilers."""
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    sums = x.new_empty(min(PROGRAMS, rows), width, dtype=torch.float32)
    return torch.empty_like(x), sums
