"""The layer norm of GPUs under autocast, computed on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops import layer_norm as module
from toolkit.nn.ops.layer_norm import LayerNorm, layer_norm

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
