"""Convolutions along a sequence as matrix products.

On a CPU torch's convolutions of short sequences and their backward passes take several times as
long (benchmarks/tagging_speed.py).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import fast


def relu_convolution(
    x: Float[Tensor, "G N L C"], filters: Float[Tensor, "G R C E"], bias: Float[Tensor, "G E"]
) -> Float[Tensor, "G N L E"]:
    """relu(b + sum_m W_m x_{i+m}), |m| <= R // 2, zeros beyond the ends.

    Each of G groups has separate filters; N sequences of length L, C channels in and E out. Filters
    and bias are converted to the dtype of x.
    """
    filters, bias = filters.to(x.dtype), bias.to(x.dtype)
    if fast("convolution"):
        y: Tensor = _ReluConvolution.apply(x, filters, bias)
        return y
    radius = filters.shape[1] // 2
    outputs = [
        F.conv1d(part.mT, of_group.permute(2, 1, 0), of_bias, padding=radius).relu().mT
        for part, of_group, of_bias in zip(x, filters, bias, strict=True)
    ]
    return torch.stack(outputs)


def unfold_windows(x: Float[Tensor, "G N L C"], taps: int) -> Float[Tensor, "G NL RC"]:
    """The concatenation of x_{i-r} .. x_{i+r}."""
    groups, count, length, channels = x.shape
    padded = F.pad(x, (0, 0, taps // 2, taps // 2)).contiguous()
    if torch.compiler.is_exporting():
        return torch.cat([padded[:, :, m : m + length] for m in range(taps)], -1).flatten(1, 2)
    shape = (groups, count, length, taps * channels)
    return padded.as_strided(shape, (*padded.stride()[:2], channels, 1)).flatten(1, 2)


class _ReluConvolution(torch.autograd.Function):
    """Backward is a convolution with flipped filters; windows are recomputed."""

    @staticmethod
    def forward(ctx, x, filters, bias):  # type: ignore[no-untyped-def]
        windows = unfold_windows(x, filters.shape[1])
        product = torch.baddbmm(bias[:, None], windows, filters.flatten(1, 2))
        y = product.relu_().unflatten(1, x.shape[1:3])
        ctx.save_for_backward(x, filters, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        x, filters, y = ctx.saved_tensors
        taps = filters.shape[1]
        gradient = torch.ops.aten.threshold_backward(gradient, y, 0)
        grad_product = gradient.flatten(1, 2)
        pairs = zip(grad_product, unfold_windows(x, taps), strict=True)
        # In a loop, since torch's batched product copies transposed bf16.
        grad_filters = torch.stack([g.mT @ windows for g, windows in pairs]).mT
        grad_x = None
        if ctx.needs_input_grad[0]:
            flipped = filters.flip(1).mT.flatten(1, 2)  # (G, R, C, E) -> (G, RE, C)
            grad_x = (unfold_windows(gradient, taps) @ flipped).unflatten(1, x.shape[1:3])
        return grad_x, grad_filters.unflatten(1, (taps, -1)), grad_product.sum(1)


def to_compute_dtype(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x in the dtype of matrix products: that of autocast, if enabled."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x
