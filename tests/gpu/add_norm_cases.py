"""The Triton kernels of the residual connection against plain operations in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.ops import layer_norm as operation
from toolkit.nn.ops.kernels import add_norm as kernels
from toolkit.nn.ops.layer_norm import add_norm_by_kernel

EPS = 1e-12


@dataclass(frozen=True)
class NormCase:
    rows: int
    width: int
    dtype: str = "float32"
    rate: float = 0.0
    programs: int = 2
    """Of the backward pass at most, so that each has several blocks of rows."""


def run_kernel(case: NormCase, tensors: list[Tensor], seed: int = 1) -> list[Tensor]:
    """The result and all gradients."""
    torch.manual_seed(seed)
    with (
        patch.object(operation, "PROGRAMS", case.programs),
        patch.object(kernels, "NUMBERS", 64),
    ):
        out = add_norm_by_kernel(*tensors, EPS, case.rate)
        return [out.detach(), *torch.autograd.grad((out.float() ** 3).sum(), tensors)]


def make_tensors(case: NormCase) -> list[Tensor]:
    torch.manual_seed(0)
    dtype, shape = getattr(torch, case.dtype), (1, case.rows, case.width)
    x, y = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(2))
    weight, bias = (torch.randn(case.width, requires_grad=True) for _ in range(2))
    return [x, y, weight, bias]


def find_kept(case: NormCase) -> Tensor:
    """The factors of dropout: the gradient of y is that of x times them."""
    tensors = make_tensors(NormCase(case.rows, case.width, rate=case.rate))
    _, of_x, of_y, *_ = run_kernel(case, tensors)
    return torch.where(of_x.abs() > 0, of_y / of_x, 0.0).round(decimals=3)


def compare(case: NormCase) -> list[float]:
    """Errors of the result and of all gradients, as fractions of the greatest number."""
    kept = find_kept(case) if case.rate else torch.ones(1, case.rows, case.width)
    tensors = make_tensors(case)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    x, y, weight, bias = exact
    total = x + y * (kept.double() > 0) / (1 - case.rate)
    out = F.layer_norm(total, weight.shape, weight, bias, EPS)
    expected = [out.detach(), *torch.autograd.grad((out**3).sum(), exact)]
    found = run_kernel(case, tensors)
    return [
        float((a.double() - b).abs().max() / b.abs().max())
        for a, b in zip(found, expected, strict=True)
    ]


def repeat(case: NormCase) -> tuple[bool, bool, float]:
    """Whether the same seed gives the same bits, and another one others; the fraction kept."""
    tensors = make_tensors(case)
    first, again, other = (run_kernel(case, tensors, seed) for seed in (1, 1, 2))
    kept = find_kept(case)
    same = all(map(torch.equal, first, again))
    return same, all(map(torch.equal, first, other)), float((kept > 0).float().mean())
