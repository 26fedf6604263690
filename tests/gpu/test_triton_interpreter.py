"""Triton kernels one operation at a time: equal to exact results, and to themselves."""

from __future__ import annotations

from functools import partial

import pytest
import torch

FEW = [(1, 1, 1, 1, 4), (1, 2, 5, 9, 6), (1, 1, 33, 9, 20)]
MANY = [(2, 3, 33, 9, 64), (1, 2, 70, 17, 54), (1, 2, 40, 7, 1)]
SHAPES = [*FEW, *(pytest.param(shape, marks=pytest.mark.slow) for shape in MANY)]
"""Sentences, heads, length, taps, width."""
ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""Greatest error allowed, as a fraction of the greatest number."""


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolution_kernels_equal_exact_products(shape, dtype, interpreter):
    from tests.gpu.convolution_cases import convolve

    for found, exact in zip(*interpreter(convolve, shape, dtype), strict=True):
        assert found.dtype == dtype
        error = (found.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-9)
        assert error < ROUNDING[dtype]


def test_convolution_kernels_read_strided_tensors(interpreter):
    from tests.gpu.convolution_cases import convolve_strided

    for found, exact in zip(*interpreter(convolve_strided), strict=True):
        torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-5)


def test_convolution_kernels_give_the_same_bits_twice(interpreter):
    from tests.gpu.convolution_cases import convolve

    shape = (1, 2, 40, 9, 16)
    first, second = (interpreter(convolve, shape, torch.bfloat16)[0] for _ in range(2))
    assert all(map(torch.equal, first, second))


CHANNELS = [(1, 33, 70, 9), (1, 1, 4, 1), (2, 5, 6, 9)]
"""Sentences, length, channels, taps."""
MORE_CHANNELS = [(1, 130, 20, 3), (1, 40, 20, 31)]


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize(
    "shape", [*CHANNELS, *(pytest.param(s, marks=pytest.mark.slow) for s in MORE_CHANNELS)], ids=str
)
def test_depthwise_kernels_equal_exact_convolutions(shape, dtype, interpreter):
    from tests.gpu.depthwise_cases import convolve_channels

    found, exact = interpreter(convolve_channels, shape, dtype)
    assert [t.dtype for t in found] == [dtype, dtype, torch.float32, torch.float32]
    for one, other in zip(found, exact, strict=True):
        error = (one.double() - other).abs().max() / other.abs().max().clamp_min(1e-9)
        assert error < ROUNDING[dtype]


def test_depthwise_kernels_need_no_bias(interpreter):
    from tests.gpu.depthwise_cases import convolve_channels

    found, exact = interpreter(partial(convolve_channels, bias=False), CHANNELS[0], torch.float32)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-5)


def test_depthwise_kernels_give_the_same_bits_twice(interpreter):
    from tests.gpu.depthwise_cases import convolve_channels

    shape = CHANNELS[0]
    first, second = (interpreter(convolve_channels, shape, torch.bfloat16)[0] for _ in range(2))
    assert all(map(torch.equal, first, second))
