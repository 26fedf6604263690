"""The Triton kernels compared with the products of `banded_convolution`.

With TRITON_INTERPRET=1 and Triton installed they also run, slowly, on a CPU.
"""

from __future__ import annotations

import os

import pytest
import torch

from toolkit.nn.ops.banded_convolution import _BandedConvolution

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
SHAPES = [(1, 1, 4), (5, 9, 6), (33, 9, 64), (70, 17, 54)]


@pytest.mark.gpu
@pytest.mark.parametrize(("length", "taps", "width"), SHAPES)
def test_triton_kernels_and_their_gradients_equal_the_products(length, taps, width):
    pytest.importorskip("triton")
    from toolkit.nn.ops.kernels.banded_convolution import triton_dynamic_convolution

    torch.manual_seed(0)
    kernels = torch.randn(2, 3, length, taps, device=DEVICE, requires_grad=True)
    v = torch.randn(2, 3, length, width, device=DEVICE, requires_grad=True)
    gradient = torch.randn_like(v)
    outputs = triton_dynamic_convolution(kernels, v), _BandedConvolution.apply(kernels, v)
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-4)
    gradients = [torch.autograd.grad(out, (kernels, v), gradient) for out in outputs]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
