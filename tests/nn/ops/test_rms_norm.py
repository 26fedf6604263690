from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.layer_norm import RMSNorm, rms_norm

EPS = 1e-5


def test_rms_norm_and_its_gradients_equal_those_of_torch():
    torch.manual_seed(0)
    x = (2 + torch.randn(2, 3, 6, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    results = []
    for normed in (rms_norm(x, weight, EPS), F.rms_norm(x, (6,), weight, EPS)):
        results.append([normed, *torch.autograd.grad(normed.sin().sum(), (x, weight))])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("autocast", [False, True])
def test_rms_norm_in_bf16_is_within_rounding_of_fp32(autocast):
    torch.manual_seed(0)
    norm, x = RMSNorm(64, EPS), torch.randn(4, 64)
    torch.nn.init.normal_(norm.weight)
    half = x.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = norm(half)
    found.float().square().sum().backward()
    assert found.dtype == half.grad.dtype == torch.bfloat16 and norm.weight.grad.isfinite().all()
    torch.testing.assert_close(
        found.float(), F.rms_norm(x, (64,), norm.weight, EPS), atol=0.1, rtol=0.02
    )
