"""Depthwise convolutions are torch's, forwards and backwards, on the faster way too."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.depthwise import (
    DepthwiseConvolution,
    SeparableConvolution,
    depthwise_conv1d,
    mask_padding,
)


def given(bias, radius=2, length=6):
    torch.manual_seed(0)
    layer = DepthwiseConvolution(4, radius, bias=bias).double()
    return layer, torch.randn(3, length, 4, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("radius", "length"), [(2, 6), (0, 6), (4, 2), (1, 1)])
def test_values_and_gradients_are_those_of_torchs_convolution(bias, radius, length):
    layer, x = given(bias, radius, length)
    got, gradient = layer(x), torch.randn_like(x)
    mine = [x, *layer.parameters()]
    one = torch.autograd.grad(got, mine, gradient)
    want = layer.convolution(x.mT).mT
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(one, torch.autograd.grad(want, mine, gradient))


def test_gradients_pass_torchs_own_check():
    layer, x = given(bias=True)
    assert torch.autograd.gradcheck(layer, (x,))


def test_under_autocast_it_computes_in_half_precision_and_learns_in_full():
    layer, x = given(bias=True)
    layer, x = layer.float(), x.detach().float()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16 and layer.convolution.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), atol=0.05, rtol=0.02)
    want = torch.autograd.grad(layer.convolution(x.mT).sum(), layer.convolution.weight)[0]
    torch.testing.assert_close(layer.convolution.weight.grad, want, atol=0.1, rtol=0.05)


def test_a_separable_convolution_mixes_the_channels_of_a_depthwise_one():
    layer, x = SeparableConvolution(4, 3, 1), torch.randn(2, 5, 4)
    depthwise = layer.depthwise.convolution
    assert depthwise.bias is None
    want = F.conv1d(x.mT, depthwise.weight, padding=1, groups=4).mT
    torch.testing.assert_close(layer(x), layer.pointwise(want))


def test_what_is_hidden_is_zero():
    x, padding = torch.ones(1, 3, 2), torch.tensor([[False, False, True]])
    assert mask_padding(x, padding)[0, :, 0].tolist() == [1, 1, 0] and mask_padding(x, None) is x


def test_few_channels_and_many_taps_end_in_bf16_where_torchs_kernel_spins():
    x, weight, bias = torch.randn(3, 33, 8), torch.randn(8, 1, 17), torch.randn(8)
    half = depthwise_conv1d(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
    want = depthwise_conv1d(x, weight, bias)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), want, atol=0.1, rtol=0.05)


def test_few_channels_and_many_taps_end_under_autocast_too_where_training_computes_in_bf16():
    layer, x = DepthwiseConvolution(8, 8), torch.randn(3, 33, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(x)
    half.float().sum().backward()
    assert half.dtype == torch.bfloat16 and x.grad is not None
    torch.testing.assert_close(half.float(), layer(x), atol=0.1, rtol=0.05)
