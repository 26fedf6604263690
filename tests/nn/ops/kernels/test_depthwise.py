"""The Triton kernels of the depthwise convolution compared with torch's convolution.

With TRITON_INTERPRET=1 and Triton installed they also run, slowly, on a CPU.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional as F

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
SHAPES = [(1, 4, 1), (5, 6, 9), (33, 64, 9), (300, 130, 17)]


@pytest.mark.gpu
@pytest.mark.parametrize(("length", "width", "taps"), SHAPES)
def test_triton_kernels_and_their_gradients_equal_torchs(length, width, taps):
    pytest.importorskip("triton")
    from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

    torch.manual_seed(0)
    shapes = (2, length, width), (width, 1, taps), (width,)
    inputs = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    x, weight, bias = inputs
    expected = F.conv1d(x.double().mT, weight.double(), bias.double(), 1, "same", groups=width).mT
    found, gradient = triton_depthwise_convolution(*inputs), torch.randn_like(x)
    torch.testing.assert_close(found, expected.float(), atol=1e-4, rtol=1e-4)
    gradients = [torch.autograd.grad(y, inputs, gradient) for y in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
