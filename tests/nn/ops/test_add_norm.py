from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.add_norm import add_norm
from toolkit.nn.ops.dropout import draw_keep_mask, round_rate

EPS = 1e-12


def parts(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((2, 3, 6), (2, 3, 6), (6,), (6,))
    return tuple(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)


def plain(x, y, weight, bias, rate):
    if rate:
        y = y * (draw_keep_mask(y.shape, rate) != 0) / (1 - round_rate(rate))
    return F.layer_norm(x + y, weight.shape, weight, bias, EPS)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_the_residual_in_one_step_equals_its_steps_and_their_gradients(rate):
    results = []
    for path in (plain, lambda *a: add_norm(*a[:-1], EPS, a[-1])):
        torch.manual_seed(1)
        inputs = parts()
        normed = path(*inputs, rate)
        results.append([normed, *torch.autograd.grad(normed.sin().sum(), inputs)])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-10)


def test_bf16_stays_within_its_rounding_of_fp32():
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        x, y, weight, bias = parts(torch.float32)
        normed = add_norm(x.to(dtype), y.to(dtype), weight, bias, EPS, 0.4)
        results.append([normed, *torch.autograd.grad(normed.float().sin().sum(), (x, y, weight))])
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got.float(), want, atol=0.05 * want.abs().max().item(), rtol=0)
