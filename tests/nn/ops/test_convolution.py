"""Convolutions of short sequences as products."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.convolution import relu_convolution, to_compute_dtype, unfold_windows

G, N, L, C, E = 2, 3, 6, 4, 5


def inputs(taps: int):
    torch.manual_seed(0)
    x, filters, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((G, N, L, C), (G, taps, C, E), (G, E))
    )
    return x, filters, bias


@pytest.mark.parametrize("taps", [1, 3, 5])
def test_relu_convolution_equals_torchs(taps):
    x, filters, bias = inputs(taps)
    y = relu_convolution(x, filters, bias)
    for g in range(G):
        weight = filters[g].permute(2, 1, 0)  # (R, C, E) -> (E, C, R)
        expected = F.conv1d(x[g].mT, weight, bias[g], padding="same").relu().mT
        torch.testing.assert_close(y[g], expected)


def test_relu_convolution_passes_gradcheck():
    assert torch.autograd.gradcheck(relu_convolution, inputs(3))


def test_relu_convolution_computes_no_gradient_for_a_constant_input():
    x, filters, bias = inputs(3)
    relu_convolution(x.detach(), filters, bias).sum().backward()
    assert x.grad is None
    assert filters.grad is not None


def test_relu_convolution_accepts_strided_inputs():
    x, filters, bias = inputs(3)
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(
        relu_convolution(strided, filters, bias), relu_convolution(x, filters, bias)
    )


def test_unfold_windows_pads_with_zeros_beyond_the_ends():
    x = torch.arange(1.0, 5.0).view(1, 1, 2, 2)
    assert unfold_windows(x, 3)[0].tolist() == [[0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0]]


def test_relu_convolution_converts_filters_to_the_dtype_of_the_input():
    x, filters, bias = inputs(3)
    assert relu_convolution(x.bfloat16(), filters, bias).dtype == torch.bfloat16


def test_to_compute_dtype_follows_autocast():
    x = torch.zeros(2)
    assert to_compute_dtype(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert to_compute_dtype(x).dtype == torch.bfloat16
