"""The Triton kernels of the dynamic and of the depthwise convolution against double precision."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.ops.banded_convolution import _BandedConvolution
from toolkit.nn.ops.kernels.banded_convolution import triton_dynamic_convolution
from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

Results = tuple[Tensor, ...]


def convolve(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Results, Results]:
    """(sentences, heads, length, taps, width) -> output and gradients: the kernels', the exact."""
    *rows, taps_each, width = shape
    torch.manual_seed(0)
    taps = torch.randn(*rows, taps_each).to(dtype)
    v, gradient = (torch.randn(*rows, width).to(dtype) for _ in range(2))
    exact = differentiate(_BandedConvolution.apply, *(t.double() for t in (gradient, taps, v)))
    return differentiate(triton_dynamic_convolution, gradient, taps, v), exact


def differentiate(function: object, gradient: Tensor, *inputs: Tensor) -> Results:
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    out = function(*inputs)  # type: ignore[operator]
    return out.detach(), *torch.autograd.grad(out, inputs, gradient)


def convolve_strided() -> tuple[Results, Results]:
    """Taps and values as the layers have them: permuted, and a slice of one product."""
    torch.manual_seed(0)
    taps = torch.randn(9, 1, 2, 35).permute(1, 2, 3, 0)
    v, gradient = torch.randn(4, 1, 2, 35, 8)[3], torch.randn(1, 2, 35, 8)
    inputs = gradient, taps, v
    exact = differentiate(_BandedConvolution.apply, *(t.double() for t in inputs))
    return differentiate(triton_dynamic_convolution, *inputs), exact


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
