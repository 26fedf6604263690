from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.dropout import draw_keep_mask, round_rate
from toolkit.nn.ops.layer_norm import add_norm

EPS = 1e-12


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((2, 3, 6), (2, 3, 6), (6,), (6,))
    return tuple(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)


def reference(x, y, weight, bias, rate):
    if rate:
        y = y * (draw_keep_mask(y.shape, rate) != 0) / (1 - round_rate(rate))
    return F.layer_norm(x + y, weight.shape, weight, bias, EPS)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_add_norm_and_its_gradients_equal_the_separate_operations(rate):
    results = []
    for path in (reference, lambda *a: add_norm(*a[:-1], EPS, a[-1])):
        torch.manual_seed(1)
        tensors = inputs()
        normed = path(*tensors, rate)
        results.append([normed, *torch.autograd.grad(normed.sin().sum(), tensors)])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-10)


def test_add_norm_in_bf16_is_within_rounding_of_fp32():
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        x, y, weight, bias = inputs(torch.float32)
        normed = add_norm(x.to(dtype), y.to(dtype), weight, bias, EPS, 0.4)
        results.append([normed, *torch.autograd.grad(normed.float().sin().sum(), (x, y, weight))])
    for exact, rounded in zip(*results, strict=True):
        atol = 0.05 * exact.abs().max().item()
        torch.testing.assert_close(rounded.float(), exact, atol=atol, rtol=0)
