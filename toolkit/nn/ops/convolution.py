"""Convolutions along a sequence: as matrix products, depthwise and separable.

On a CPU torch's plain convolutions of short sequences and their backward passes take several times
as long as products (benchmarks/tagging_speed.py).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.kernels import triton_runs


def relu_convolution(
    x: Float[Tensor, "G N L C"], filters: Float[Tensor, "G R C E"], bias: Float[Tensor, "G E"]
) -> Float[Tensor, "G N L E"]:
    """relu(b + sum_m W_m x_{i+m}), |m| <= R // 2, zeros beyond the ends, in the dtype of x.

    Each of G groups has separate filters; N sequences of length L, C channels in and E out.
    """
    filters, bias = filters.to(x.dtype), bias.to(x.dtype)
    if fast("convolution"):
        return _ReluConvolution.apply(x, filters, bias)
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


MAX_UNSAFE_BF16_CHANNELS = 16
"""With this many channels or fewer and 15 taps or more, torch's bf16 kernel for CPUs (oneDNN's)
may hang."""


def mask_padding(
    x: Float[Tensor, "B S D"], padding: Bool[Tensor, "B S"] | None
) -> Float[Tensor, "B S D"]:
    """x with zeros at padding, so that convolutions see the end of the text there."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


class DepthwiseConvolution(nn.Module):
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}, |m| <= radius, zeros beyond; a kernel on a GPU."""

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

    As in ConvBERT's code, the depthwise stage has no bias and begins with a normal of standard
    deviation 1 / taps, truncated at two; with a bias (Chang et al. 2021), as torch's.
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
