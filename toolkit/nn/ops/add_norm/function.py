"""The post-norm residual as one operation, which saves one sum and one mask for backward."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.add_norm.operation import add_norm_by_kernel, add_norm_kernel_runs
from toolkit.nn.ops.compilation import compile_disabled
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate
from toolkit.nn.ops.layer_norm import layer_norm


def add_norm(
    x: Float[Tensor, "B S D"],
    y: Float[Tensor, "B S D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    eps: float,
    rate: float,
) -> Float[Tensor, "B S D"]:
    """LN(x + dropout(y)) (Vaswani et al. 2017, section 5.4); statistics in fp32."""
    x = x.to(y.dtype)
    if x.device.type == "cpu":
        if rate or torch.is_grad_enabled():
            return add_norm_on_cpu(x, y, weight, bias, eps, rate)
        return torch.native_layer_norm(x + y, weight.shape, weight, bias, eps)[0]
    if add_norm_kernel_runs(y):
        zeros_or_bias = torch.zeros_like(weight) if bias is None else bias
        return add_norm_by_kernel(x, y, weight, zeros_or_bias, eps, rate)
    return layer_norm(x + F.dropout(y, rate, rate > 0), weight, bias, eps)


@compile_disabled  # views as other integers fail there
def add_norm_on_cpu(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, eps: float, rate: float
) -> Tensor:
    """LN(x + dropout(y)) on a CPU; never compiled."""
    normed: Tensor = _AddNorm.apply(x, y, weight, bias, eps, rate)
    return normed


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
