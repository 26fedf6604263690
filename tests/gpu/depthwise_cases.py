"""The Triton kernels of the depthwise convolution against torch's in double precision."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.gpu.convolution_cases import Results, differentiate
from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

Shape = tuple[int, int, int, int]
"""Sentences, length, channels, taps."""


def convolve_channels(
    shape: Shape, dtype: torch.dtype, *, bias: bool = True
) -> tuple[Results, Results]:
    """Output and gradients: the kernels', and the exact ones. Weights are in fp32, as in models."""
    sentences, length, width, taps = shape
    torch.manual_seed(0)
    x, gradient = (torch.randn(sentences, width, length).mT.to(dtype) for _ in range(2))
    parameters = [torch.randn(width, 1, taps), *([torch.randn(width)] if bias else [])]
    exact = differentiate(convolve_exactly, *(t.double() for t in (gradient, x, *parameters)))
    return differentiate(convolve_by_kernel, gradient, x, *parameters), exact


def convolve_by_kernel(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return triton_depthwise_convolution(x, weight, bias)


def convolve_exactly(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.conv1d(x.mT, weight, bias, padding="same", groups=len(weight)).mT
