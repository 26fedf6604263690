"""Convolutions of short sequences as products."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.convolution import relu_convolution, to_compute_dtype, unfold_windows

G, N, L, C, E = 2, 3, 6, 4, 5


def given(taps: int):
    torch.manual_seed(0)
    x, filters, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((G, N, L, C), (G, taps, C, E), (G, E))
    )
    return x, filters, bias


@pytest.mark.parametrize("taps", [1, 3, 5])
def test_it_is_torchs_convolution_with_a_relu(taps):
    x, filters, bias = given(taps)
    got = relu_convolution(x, filters, bias)
    for g in range(G):
        weight = filters[g].permute(2, 1, 0)  # (R, C, E) -> (E, C, R)
        want = F.conv1d(x[g].mT, weight, bias[g], padding="same").relu().mT
        torch.testing.assert_close(got[g], want)


def test_it_has_the_derivative_of_what_it_computes():
    assert torch.autograd.gradcheck(relu_convolution, given(3))


def test_what_needs_no_derivative_gets_none():
    x, filters, bias = given(3)
    relu_convolution(x.detach(), filters, bias).sum().backward()
    assert x.grad is None
    assert filters.grad is not None


def test_a_strided_input_is_read_as_it_is():
    x, filters, bias = given(3)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(
        relu_convolution(turned, filters, bias), relu_convolution(x, filters, bias)
    )


def test_windows_hold_a_places_neighbors_and_zeros_beyond_the_ends():
    x = torch.arange(1.0, 5.0).view(1, 1, 2, 2)
    assert unfold_windows(x, 3)[0].tolist() == [[0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0]]


def test_filters_are_taken_in_the_format_of_the_input():
    x, filters, bias = given(3)
    assert relu_convolution(x.bfloat16(), filters, bias).dtype == torch.bfloat16


def test_inputs_are_computed_in_the_format_of_products():
    x = torch.zeros(2)
    assert to_compute_dtype(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert to_compute_dtype(x).dtype == torch.bfloat16
