"""The convolution with narrow bands: equal to loops, whatever the length, with exact gradients."""

from __future__ import annotations

import pytest
import torch

from toolkit.nn.ops.banded_convolution import BLOCK, block_size, dynamic_convolution

SHAPES = [(1, 1), (1, 9), (5, 3), (5, 17), (BLOCK - 1, 9), (BLOCK, 9), (BLOCK + 1, 9), (70, 41)]


def given(length, taps, dtype=torch.float64):
    torch.manual_seed(0)
    kernels = torch.randn(2, 3, length, taps, dtype=dtype, requires_grad=True)
    return kernels, torch.randn(2, 3, length, 4, dtype=dtype, requires_grad=True)


def by_unfolding(kernels, v):
    """The values unfolded, as nobody with little memory would."""
    reach = kernels.shape[-1] // 2
    near = torch.nn.functional.pad(v, (0, 0, reach, reach)).unfold(2, kernels.shape[-1], 1)
    return (near @ kernels.unsqueeze(-1)).squeeze(-1)  # (B, H, S, K, R) @ (B, H, S, R, 1)


def test_each_place_has_a_kernel_of_its_own():
    kernels = torch.tensor([[[[0.0, 1.0, 2.0], [3.0, 0.0, 5.0], [7.0, 0.0, 9.0]]]])
    v = torch.tensor([[[[1.0], [10.0], [100.0]]]])
    assert dynamic_convolution(kernels, v).flatten().tolist() == [1 + 20, 3 + 500, 70]


@pytest.mark.parametrize(("length", "taps"), SHAPES)
def test_values_and_gradients_equal_those_of_the_unfolded_convolution(length, taps):
    kernels, v = given(length, taps)
    got, want, gradient = (
        dynamic_convolution(kernels, v),
        by_unfolding(kernels, v),
        torch.randn_like(v),
    )
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)
    one = torch.autograd.grad(got, (kernels, v), gradient)
    other = torch.autograd.grad(want, (kernels, v), gradient)
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_gradients_pass_torchs_own_check():
    assert torch.autograd.gradcheck(dynamic_convolution, given(6, 3))


def test_half_precision_rounds_once():
    kernels, v = given(40, 9, torch.bfloat16)
    want = by_unfolding(kernels.double(), v.double())
    torch.testing.assert_close(dynamic_convolution(kernels, v).double(), want, atol=0.05, rtol=0.01)


def test_heads_that_lie_apart_in_memory_are_read_right():
    kernels, v = given(10, 3)
    apart = v.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(
        dynamic_convolution(kernels, apart), dynamic_convolution(kernels, v), atol=0, rtol=0
    )


@pytest.mark.parametrize(("length", "taps", "rows"), [(3, 9, 3), (128, 9, BLOCK), (128, 65, 64)])
def test_a_block_is_as_wide_as_the_kernel_reaches_and_no_longer_than_the_sentence(
    length, taps, rows
):
    assert block_size(length, taps) == rows
