"""The Triton kernels of the residual connection and of GELU against plain operations."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.models.interface import Inputs
from toolkit.nn.ops import bias_sums, layer_norm as operation
from toolkit.nn.ops.dispatch import switched_off
from toolkit.nn.ops.kernels import add_norm as kernels, gelu as gelu_kernel
from toolkit.nn.ops.layer_norm import add_norm_by_kernel
from toolkit.tasks.build import build_model

EPS = 1e-12


@dataclass(frozen=True)
class NormCase:
    rows: int
    width: int
    dtype: str = "float32"
    rate: float = 0.0
    programs: int = 2
    """Of the backward pass at most, so that each has several blocks of rows."""
    y_bias: bool = False
    """Whether the gradient of a bias in y is computed too."""


def run_kernel(case: NormCase, tensors: list[Tensor], seed: int = 1) -> list[Tensor]:
    """The result and all gradients."""
    torch.manual_seed(seed)
    with (
        patch.object(operation, "PROGRAMS", case.programs),
        patch.object(kernels, "NUMBERS", 64),
    ):
        out = add_norm_by_kernel(*tensors[:4], EPS, case.rate, *tensors[4:])
        return [out.detach(), *torch.autograd.grad((out.float() ** 3).sum(), tensors)]


def make_tensors(case: NormCase) -> list[Tensor]:
    torch.manual_seed(0)
    dtype, shape = getattr(torch, case.dtype), (1, case.rows, case.width)
    x, y = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(2))
    weight, bias = (torch.randn(case.width, requires_grad=True) for _ in range(2))
    y_bias = torch.randn(case.width).to(dtype).requires_grad_()
    return [x, y, weight, bias, y_bias][: 4 + case.y_bias]


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
    x, y, weight, bias, *in_y = exact
    y = y + sum(b - b.detach() for b in in_y)
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


def compare_gelu(rows: int, width: int, dtype: str) -> list[float]:
    """Errors of GELU and of the gradients of its input and of the bias in it."""
    torch.manual_seed(0)
    y = (2 * torch.randn(2, rows, width)).to(getattr(torch, dtype)).requires_grad_()
    bias, gradient = torch.zeros(width, requires_grad=True), torch.randn(2, rows, width).to(y)
    exact = y.detach().double().requires_grad_()
    out = F.gelu(exact)
    (of_y,) = torch.autograd.grad(out, exact, gradient.double())
    with (
        patch.object(bias_sums, "PROGRAMS", 2),
        patch.object(gelu_kernel, "ROWS", 2),
        patch.object(gelu_kernel, "COLUMNS", 16),
    ):
        found = bias_sums.gelu(y, bias)
        pairs = found, *torch.autograd.grad(found, [y, bias], gradient)
    expected = out, of_y, of_y.sum((0, 1))
    return [
        float((a.double() - b).abs().max() / b.abs().max())
        for a, b in zip(pairs, expected, strict=True)
    ]


def compare_bias_sums(arch: str) -> float:
    """The greatest difference that sums of biases in kernels make to states and gradients."""
    torch.manual_seed(0)
    options = {"layers": 2, "dropout": 0.0, "attention_dropout": 0.0}
    encoder = build_model(arch, vocabulary_size=50, task="mlm", **options).encoder
    inputs, found = Inputs(torch.randint(5, 45, (2, 6))), []
    for runs in (False, True):
        encoder.zero_grad()
        with (
            switched_off("add_norm"),
            patch.object(operation, "triton_runs", lambda *_, r=runs: r),
            patch.object(bias_sums, "triton_runs", lambda *_, r=runs: r),
        ):
            states = encoder(inputs).states
            (states**3).sum().backward()
        named = {n: p.grad for n, p in encoder.named_parameters() if p.grad is not None}
        found.append({"": states.detach(), **named})
    plain, summed = found
    assert plain.keys() == summed.keys()
    return max(float((summed[n] - t).abs().max() / (1 + t.abs().max())) for n, t in plain.items())
