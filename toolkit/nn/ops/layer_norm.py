"""LayerNorm and RMSNorm in autocast's precision on GPUs as on CPUs, and the residual in front.

Of LN(x + dropout(y)), one sum and one mask are saved for the backward pass on a CPU; on a GPU
(`kernels.add_norm`) the sum, and dropout is drawn again.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import apply_eagerly, fast
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate
from toolkit.nn.ops.kernels import define, draw_seed, triton_runs

MIXES_PRECISIONS = {"cpu", "meta"}
"""Devices that normalize half precision with weights in fp32, without autocast for norms."""


class LayerNorm(nn.LayerNorm):
    """LN(x) (Ba et al. 2016); a GPU's autocast receives its own precision and not fp32."""

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        if not self.elementwise_affine:
            device = x.device.type
            mixes = device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device)
            with torch.autocast(device, enabled=False):
                y = F.layer_norm(x, self.normalized_shape, eps=self.eps)
            return y if mixes else y.to(torch.get_autocast_dtype(device))
        return layer_norm(x, self.weight, self.bias, self.eps)


def layer_norm(
    x: Float[Tensor, "*shape D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    eps: float,
) -> Float[Tensor, "*shape D"]:
    """LN(x) with statistics in fp32. On a GPU autocast would return fp32, and all that follows up
    to the next product would take twice the memory; its kernels require weights in the precision of
    x.
    """
    device = x.device.type
    if device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device):
        return F.layer_norm(x, weight.shape, weight, bias, eps)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        weight, bias = weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
        return F.layer_norm(x, weight.shape, weight, bias, eps).to(dtype)


class RMSNorm(nn.Module):
    """w x / sqrt(mean(x^2) + eps), without a bias (Zhang & Sennrich 2019, eq. 4)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """In the precision of autocast, with statistics in fp32."""
        device, weight = x.device.type, self.weight
        if device in MIXES_PRECISIONS or not torch.is_autocast_enabled(device):
            return F.rms_norm(x, weight.shape, weight.to(x.dtype), self.eps)
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return F.rms_norm(x, weight.shape, weight.to(x.dtype), self.eps).to(dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


def add_norm(
    x: Float[Tensor, "B S D"],
    y: Float[Tensor, "B S D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    eps: float,
    rate: float,
    y_bias: Float[Tensor, " D"] | None = None,
) -> Float[Tensor, "B S D"]:
    """LN(x + dropout(y)) (Vaswani et al. 2017, section 5.4); statistics in fp32.

    `y_bias` is one that y contains, if its gradient is computed here (see `bias_sums`).
    """
    x = x.to(y.dtype)
    if x.device.type == "cpu" and fast("add_norm"):
        if rate or torch.is_grad_enabled():
            return apply_eagerly(_AddNorm, x, y, weight, bias, eps, rate)
        return torch.native_layer_norm(x + y, weight.shape, weight, bias, eps)[0]
    # In compiled layers too: what Inductor makes of the plain form reads and writes more.
    if y.shape[-1] <= MAX_WIDTH and triton_runs(y.device, y.dtype):
        zeros_or_bias = torch.zeros_like(weight) if bias is None else bias
        return add_norm_by_kernel(x, y, weight, zeros_or_bias, eps, rate, y_bias)
    return layer_norm(x + F.dropout(y, rate, rate > 0), weight, bias, eps)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, weight, bias, eps, rate):  # type: ignore[no-untyped-def]
        keep = draw_keep_mask(y.shape, rate) if rate else None
        ctx.scale = 1 / (1 - round_rate(rate))
        total = x + y if keep is None else torch.add(x, apply_keep_mask(y, keep), alpha=ctx.scale)
        normed, mean, rstd = torch.native_layer_norm(total, weight.shape, weight, bias, eps)
        ctx.save_for_backward(total, mean, rstd, weight, bias, keep)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        total, mean, rstd, weight, bias, keep = ctx.saved_tensors
        wanted = [True, True, bias is not None]
        grad_x, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            gradient.contiguous(), total, weight.shape, mean, rstd, weight, bias, wanted
        )
        grad_y = grad_x if keep is None else apply_keep_mask(grad_x, keep).mul_(ctx.scale)
        return grad_x, grad_y, grad_weight, grad_bias, None, None


MAX_WIDTH = 8192
PROGRAMS = 512
"""At most, of the backward pass, each of which adds up its rows' gradients of weight and bias."""


def add_norm_by_kernel(
    x: Float[Tensor, "B S D"],
    y: Float[Tensor, "B S D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"],
    eps: float,
    rate: float,
    y_bias: Float[Tensor, " D"] | None = None,
) -> Float[Tensor, "B S D"]:
    """LN(x + dropout(y)), for x and y of equal dtype, with a seed drawn on the device."""
    seed = draw_seed(rate, y.device)
    x, y = x.contiguous(), y.contiguous()
    normed, _ = _add_norm(x, y, weight.float(), bias.float(), y_bias, seed, eps, rate)
    return normed


FORWARD = (
    "(Tensor x, Tensor y, Tensor weight, Tensor bias, Tensor? y_bias, Tensor? seed, float eps, "
    "float rate) -> (Tensor, Tensor)"
)
BACKWARD = (
    "(Tensor gradient, Tensor total, Tensor weight, Tensor? seed, float eps, float rate, int sums) "
    "-> (Tensor, Tensor, Tensor)"
)


@define("toolkit::add_norm", schema=FORWARD)
def _add_norm(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The result, and x + dropout(y)."""
    from toolkit.nn.ops.kernels.add_norm import launch_forward

    results = allocate_forward(*arguments)
    launch_forward(results, *arguments)
    return results


@_add_norm.register_fake
def allocate_forward(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Shapes of the forward results, for compilers."""
    return torch.empty_like(x), torch.empty_like(x)


@define("toolkit::add_norm_backward", schema=BACKWARD)
def _add_norm_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and, with dropout, of y; summands of those of weight, bias and, if there are
    three `sums`, of the bias in y: (P, sums, D).
    """
    from toolkit.nn.ops.kernels.add_norm import launch_backward

    results = allocate_backward(*arguments)
    launch_backward(results, *arguments)
    return results


@_add_norm_backward.register_fake
def allocate_backward(
    gradient: Tensor, total: Tensor, weight: Tensor, seed: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Shapes of the backward results, for compilers."""
    width = total.shape[-1]
    programs = min(PROGRAMS, total.numel() // width)
    of_y = total.new_empty(0 if seed is None else total.shape)
    return torch.empty_like(total), of_y, weight.new_empty(programs, rest[-1], width)


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save the sum, the weight and the seed for the backward pass."""
    _, _, weight, _, y_bias, seed, ctx.eps, ctx.rate = inputs
    ctx.y_dtype = None if y_bias is None else y_bias.dtype
    ctx.save_for_backward(output[1], weight, seed)
    ctx.set_materialize_grads(False)


def differentiate(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    """Gradients of the inputs; sums of the weight and bias over programs are added here."""
    if gradient is None:
        return (None,) * 8
    total, weight, seed = ctx.saved_tensors
    numbers = ctx.eps, ctx.rate, 2 if ctx.y_dtype is None else 3
    of_x, of_y, sums = _add_norm_backward(gradient.contiguous(), total, weight, seed, *numbers)
    of_weight, of_bias, *others = sums.sum(0)
    of_y_bias = others[0].to(ctx.y_dtype) if others else None
    of_y = of_x if seed is None else of_y
    return of_x, of_y, of_weight, of_bias, of_y_bias, None, None, None


_add_norm.register_autograd(differentiate, setup_context=save_inputs)
