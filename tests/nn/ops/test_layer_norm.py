"""The layer norm of GPUs under autocast, computed on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops import layer_norm as module
from toolkit.nn.ops.layer_norm import LayerNorm, RMSNorm, layer_norm

EPS = 1e-12


def run(x, weight, bias, autocast=True):
    """The norm of x, and its gradients."""
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        normed = layer_norm(x, weight, bias, EPS)
    return [normed, *torch.autograd.grad(normed.float().sin().sum(), (x, weight, bias))]


def operands(dtype):
    torch.manual_seed(0)
    x = (3 * torch.randn(50, 64) + 1).to(dtype).requires_grad_()
    weight, bias = ((start + 0.1 * torch.randn(64)).requires_grad_() for start in (1.0, 0.0))
    return x, weight, bias


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_layer_norm_of_a_gpu_is_as_exact_as_that_of_a_cpu(dtype, monkeypatch):
    tensors = operands(dtype)
    exact = run(tensors[0].float(), *tensors[1:], autocast=False)
    of_cpu = run(*tensors)
    monkeypatch.setattr(module, "MIXES_PRECISIONS", set())
    of_gpu = run(*tensors)
    assert of_gpu[0].dtype == torch.bfloat16
    assert [g.dtype for g in of_gpu[1:]] == [dtype, torch.float32, torch.float32]
    for found, reference, right in zip(of_gpu, of_cpu, exact, strict=True):
        limit = max(1.5 * (reference - right).norm(), 0.004 * right.norm())
        assert (found - right).norm() < limit


def test_layer_norm_without_autocast_is_that_of_torch(monkeypatch):
    monkeypatch.setattr(module, "MIXES_PRECISIONS", set())
    x, weight, bias = operands(torch.float32)
    norm = LayerNorm(64, eps=EPS)
    norm.weight, norm.bias = torch.nn.Parameter(weight.detach()), torch.nn.Parameter(bias.detach())
    assert torch.equal(norm(x), F.layer_norm(x, (64,), weight, bias, EPS))


@pytest.mark.parametrize(("dtype", "autocast"), [("float64", 0), ("bfloat16", 0), ("bfloat16", 1)])
def test_rms_norm_equals_its_equation(dtype, autocast):
    torch.manual_seed(0)
    norm, x = RMSNorm(64, EPS).double(), torch.randn(4, 64, dtype=torch.float64)
    torch.nn.init.normal_(norm.weight)
    expected = norm.weight * x / x.square().mean(-1, keepdim=True).add(EPS).sqrt()
    norm = norm.double() if dtype == "float64" else norm.float()
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)):
        found = norm(x.to(getattr(torch, dtype)))
    assert found.dtype == getattr(torch, dtype)
    tolerance = 1e-12 if dtype == "float64" else 0.02
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
