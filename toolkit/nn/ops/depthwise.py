"""Depthwise and separable convolutions along a sequence."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.ops.convolution import to_compute_dtype
from toolkit.nn.ops.kernels import triton_runs

MAX_UNSAFE_BF16_CHANNELS = 16
"""With this many channels or fewer and 15 taps or more, torch's bf16 kernel for CPUs (oneDNN's)
may hang."""


def mask_padding(
    x: Float[Tensor, "B S D"], padding: Bool[Tensor, "B S"] | None
) -> Float[Tensor, "B S D"]:
    """x with zeros at padding, so that convolutions see the end of the text there."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


class DepthwiseConvolution(nn.Module):
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}, |m| <= radius, zeros beyond the ends.

    Computed by `kernels.depthwise` on a GPU if Triton is installed.
    """

    def __init__(self, width: int, radius: int, *, bias: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(
            width, width, 2 * radius + 1, padding=radius, groups=width, bias=bias
        )

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        weight, bias = self.convolution.weight, self.convolution.bias
        if triton_runs(x.device, x.dtype):
            from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

            return triton_depthwise_convolution(to_compute_dtype(x), weight, bias)
        if x.device.type != "cpu":
            # With channels last, torch would call cuDNN, which plans each new shape.
            channels_first: Tensor = self.convolution(x.mT)
            return channels_first.mT
        x = to_compute_dtype(x)
        return depthwise_conv1d(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def depthwise_conv1d(
    x: Float[Tensor, "B S D"], weight: Float[Tensor, "D 1 R"], bias: Float[Tensor, " D"] | None
) -> Float[Tensor, "B S D"]:
    """y_s = sum_r weight_r x_(s+r) + bias by channel, with zeros beyond both ends."""
    bf16_on_cpu = x.device.type == "cpu" and x.dtype == torch.bfloat16
    if bf16_on_cpu and len(weight) <= MAX_UNSAFE_BF16_CHANNELS:
        with torch.autocast("cpu", enabled=False):  # it would convert back to bf16
            fp32_bias = None if bias is None else bias.float()
            return depthwise_conv1d(x.float(), weight.float(), fp32_bias).to(x.dtype)
    if torch.compiler.is_compiling():  # Inductor cannot order the symbolic strides of the image
        return F.conv1d(x.mT, weight, bias, padding=weight.shape[-1] // 2, groups=len(weight)).mT
    # As an image one row high with its channels last, as in memory: conv1d would first transpose,
    # which takes 2.5 times as long on a CPU.
    image = x.mT.unsqueeze(2)  # (B, S, D) -> (B, D, 1, S)
    radius, width = weight.shape[-1] // 2, len(weight)
    y = F.conv2d(image, weight.unsqueeze(2), bias, padding=(0, radius), groups=width)
    return y.squeeze(2).mT  # (B, D, 1, S) -> (B, S, D)


class SeparableConvolution(nn.Module):
    """U depthwise(x) + b: a convolution of each channel, then a mixture of channels.

    As in ConvBERT's code, the depthwise stage has no bias and is initialized from a normal with
    standard deviation 1 / taps, truncated at two deviations. With a bias, as in Chang et al. 2021,
    it has torch's default initialization.
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
