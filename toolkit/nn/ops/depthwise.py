"""One kernel for each channel, and padding kept out of its reach."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

MAX_UNSAFE_BF16_CHANNELS = 16
"""Channels up to which torch's kernel for bf16 on CPUs (oneDNN's) may never return, given
15 taps or more."""


def mask_padding(
    x: Float[Tensor, "B S D"], padding: Bool[Tensor, "B S"] | None
) -> Float[Tensor, "B S D"]:
    """Zero at padding, so that a neighbor's convolution sees the end of the text."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


class DepthwiseConvolution(nn.Module):
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}, |m| <= radius, zeros beyond the ends."""

    def __init__(self, width: int, radius: int, *, bias: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(
            width, width, 2 * radius + 1, padding=radius, groups=width, bias=bias
        )

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        weight, bias = self.convolution.weight, self.convolution.bias
        if x.device.type != "cpu":
            return depthwise_conv1d(x, weight, bias)
        if torch.is_autocast_enabled("cpu"):
            x = x.to(torch.get_autocast_dtype("cpu"))
        y: Tensor = _DepthwiseConvolution.apply(
            x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
        )
        return y


def depthwise_conv1d(
    x: Float[Tensor, "B S D"], weight: Float[Tensor, "D 1 R"], bias: Float[Tensor, " D"] | None
) -> Float[Tensor, "B S D"]:
    if (
        x.device.type == "cpu"
        and x.dtype == torch.bfloat16
        and len(weight) <= MAX_UNSAFE_BF16_CHANNELS
    ):
        wide = (None if it is None else it.float() for it in (x, weight, bias))
        with torch.autocast("cpu", enabled=False):  # which would make them bf16 again
            return depthwise_conv1d(*wide).to(x.dtype)  # type: ignore[arg-type]
    # As an image one row high, its channels last as they lie in memory: conv1d would move them
    # first, which takes 2.5 times as long on a CPU.
    image = x.mT.unsqueeze(2)  # (B, S, D) -> (B, D, 1, S)
    radius, width = weight.shape[-1] // 2, len(weight)
    y = F.conv2d(image, weight.unsqueeze(2), bias, padding=(0, radius), groups=width)
    return y.squeeze(2).mT  # (B, D, 1, S) -> (B, S, D)


class _DepthwiseConvolution(torch.autograd.Function):
    """On a CPU, where torch's own gradient of the weights takes up to twice as long.

    It is sum_i y'_{i,c} x_{i+m,c} for each tap m, one pass over the gradient y' for each.
    """

    @staticmethod
    def forward(ctx, x, weight, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        return depthwise_conv1d(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        x, weight = ctx.saved_tensors
        taps, length = weight.shape[-1], x.shape[1]
        near = F.pad(x, (0, 0, taps // 2, taps // 2))
        passed, of_weight = torch.empty_like(gradient), torch.empty_like(weight[:, 0].mT)
        for tap in range(taps):
            torch.mul(gradient, near[:, tap : tap + length], out=passed)
            torch.sum(passed, (0, 1), out=of_weight[tap])
        of_bias = gradient.sum((0, 1)) if ctx.needs_input_grad[2] else None
        return depthwise_conv1d(gradient, weight.flip(-1), None), of_weight.mT.unsqueeze(1), of_bias


class SeparableConvolution(nn.Module):
    """U depthwise(x) + b: the neighbors' channels one by one, then channels mixed.

    As in ConvBERT's code, the depthwise stage starts from a normal with deviation 1 / taps cut at
    two deviations, and has no bias; with one, as in Chang et al. 2021, it starts as torch does.
    """

    def __init__(self, width: int, out: int, radius: int, *, depthwise_bias: bool = False) -> None:
        super().__init__()
        self.depthwise = DepthwiseConvolution(width, radius, bias=depthwise_bias)
        self.pointwise = nn.Linear(width, out)
        if not depthwise_bias:
            deviation = 1 / (2 * radius + 1)
            weight, limit = self.depthwise.convolution.weight, 2 * deviation
            nn.init.trunc_normal_(weight, std=deviation, a=-limit, b=limit)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S W"]:
        return self.pointwise(self.depthwise(x))
