"""Banded convolution compared with an unfolded one, at lengths around the block size."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.ops.banded_convolution import BLOCK, block_size, dynamic_convolution

SHAPES = [(1, 1), (1, 9), (5, 3), (5, 17), (BLOCK - 1, 9), (BLOCK, 9), (BLOCK + 1, 9), (70, 41)]


def inputs(length, taps, dtype=torch.float64):
    torch.manual_seed(0)
    kernels = torch.randn(2, 3, length, taps, dtype=dtype, requires_grad=True)
    return kernels, torch.randn(2, 3, length, 4, dtype=dtype, requires_grad=True)


def unfolded_convolution(kernels, v):
    """Convolution of unfolded values."""
    radius = kernels.shape[-1] // 2
    windows = torch.nn.functional.pad(v, (0, 0, radius, radius)).unfold(2, kernels.shape[-1], 1)
    return (windows @ kernels.unsqueeze(-1)).squeeze(-1)  # (B, H, S, K, R) @ (B, H, S, R, 1)


def test_dynamic_convolution_applies_a_separate_kernel_at_each_position():
    kernels = torch.tensor([[[[0.0, 1.0, 2.0], [3.0, 0.0, 5.0], [7.0, 0.0, 9.0]]]])
    v = torch.tensor([[[[1.0], [10.0], [100.0]]]])
    assert dynamic_convolution(kernels, v).flatten().tolist() == [1 + 20, 3 + 500, 70]


@pytest.mark.parametrize(("length", "taps"), SHAPES)
def test_dynamic_convolution_and_its_gradients_equal_the_unfolded_one(length, taps):
    kernels, v = inputs(length, taps)
    outputs = [convolve(kernels, v) for convolve in (dynamic_convolution, unfolded_convolution)]
    torch.testing.assert_close(*outputs, atol=1e-12, rtol=0)
    gradient = torch.randn_like(v)
    gradients = [torch.autograd.grad(out, (kernels, v), gradient) for out in outputs]
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


def test_dynamic_convolution_in_bf16_rounds_once():
    kernels, v = inputs(40, 9, torch.bfloat16)
    expected = unfolded_convolution(kernels.double(), v.double())
    torch.testing.assert_close(
        dynamic_convolution(kernels, v).double(), expected, atol=0.05, rtol=0.01
    )


def test_dynamic_convolution_accepts_strided_heads():
    kernels, v = inputs(10, 3)
    strided = v.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(
        dynamic_convolution(kernels, strided), dynamic_convolution(kernels, v), atol=0, rtol=0
    )


@pytest.mark.parametrize(("length", "taps", "rows"), [(3, 9, 3), (128, 9, BLOCK), (128, 65, 64)])
def test_block_size_is_at_least_the_kernel_and_at_most_the_length(length, taps, rows):
    assert block_size(length, taps) == rows
