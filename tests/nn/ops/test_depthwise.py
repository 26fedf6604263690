"""Depthwise convolutions compared with torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.convolution import (
    DepthwiseConvolution,
    SeparableConvolution,
    depthwise_conv1d,
    mask_padding,
)


def make_layer(bias, radius=2, length=6):
    torch.manual_seed(0)
    layer = DepthwiseConvolution(4, radius, bias=bias).double()
    return layer, torch.randn(3, length, 4, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("radius", "length"), [(2, 6), (0, 6), (4, 2), (1, 1)])
def test_depthwise_convolution_and_its_gradients_equal_torchs(bias, radius, length):
    layer, x = make_layer(bias, radius, length)
    outputs, inputs = [layer(x), layer.convolution(x.mT).mT], [x, *layer.parameters()]
    torch.testing.assert_close(*outputs)
    gradient = torch.randn_like(x)
    torch.testing.assert_close(*(torch.autograd.grad(y, inputs, gradient) for y in outputs))


def test_depthwise_convolution_under_autocast_computes_in_bf16_with_fp32_gradients():
    layer, x = make_layer(bias=True)
    layer, x = layer.float(), x.detach().float()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16 and layer.convolution.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), atol=0.05, rtol=0.02)
    expected = torch.autograd.grad(layer.convolution(x.mT).sum(), layer.convolution.weight)[0]
    torch.testing.assert_close(layer.convolution.weight.grad, expected, atol=0.1, rtol=0.05)


def test_separable_convolution_mixes_the_channels_of_a_depthwise_one():
    layer, x = SeparableConvolution(4, 3, 1), torch.randn(2, 5, 4)
    depthwise = layer.depthwise.convolution
    assert depthwise.bias is None
    expected = F.conv1d(x.mT, depthwise.weight, padding=1, groups=4).mT
    torch.testing.assert_close(layer(x), layer.pointwise(expected))


def test_mask_padding_sets_padding_to_zero():
    x, padding = torch.ones(1, 3, 2), torch.tensor([[False, False, True]])
    assert mask_padding(x, padding)[0, :, 0].tolist() == [1, 1, 0] and mask_padding(x, None) is x


def test_depthwise_convolution_of_few_channels_in_bf16_does_not_hang():
    x, weight, bias = torch.randn(3, 33, 8), torch.randn(8, 1, 17), torch.randn(8)
    half = depthwise_conv1d(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
    expected = depthwise_conv1d(x, weight, bias)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), expected, atol=0.1, rtol=0.05)


def test_depthwise_convolution_of_few_channels_under_autocast_does_not_hang():
    layer, x = DepthwiseConvolution(8, 8), torch.randn(3, 33, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(x)
    half.float().sum().backward()
    assert half.dtype == torch.bfloat16 and x.grad is not None
    torch.testing.assert_close(half.float(), layer(x), atol=0.1, rtol=0.05)
