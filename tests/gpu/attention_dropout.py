"""Dropout of the Triton kernels of attention with learned taps: what is kept, and gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.gpu.attention_cases import (
    AttentionCase,
    leaves,
    make_inputs,
    relative_error,
    run_exact,
    run_kernel,
)
from toolkit.nn.ops.kernel_inputs import OffsetTables
from toolkit.nn.ops.relative_attention import relative_attention

STEP = 1e-3


def find_kept(case: AttentionCase, seed: int = 1) -> Tensor:
    """Factors of the weights of each query, (N, H, T): contexts of equal weights and unit values.

    They depend on the seed and on the query, head and key only.
    """
    rows, heads, keys = make_inputs(case).rows, case.heads, max(case.lengths)
    places = torch.cat([torch.arange(length) for length in case.lengths])
    lengths = rows.lengths.repeat_interleave(rows.lengths)
    qkv = torch.zeros(len(places), 3, heads, keys)
    qkv[:, 2] = torch.eye(keys)[places][:, None]
    torch.manual_seed(seed)
    context = relative_attention(qkv, OffsetTables(), rows, scale=1.0, dropout=case.dropout)
    return context * lengths[:, None, None]


def compare_dropped(case: AttentionCase) -> list[float]:
    """Errors of the context and of all gradients, where the equation drops the same weights."""
    inputs, kept = make_inputs(case), find_kept(case)
    pairs = zip(run_kernel(inputs, case), run_exact(inputs, case, kept), strict=True)
    return [relative_error(found, exact) for found, exact in pairs]


def repeat_dropped(case: AttentionCase) -> tuple[bool, bool]:
    """Whether a second run has the same bits, and whether one with another seed has."""
    inputs = make_inputs(case)
    first, second = run_kernel(inputs, case), run_kernel(inputs, case)
    other = run_kernel(inputs, case, seed=2)
    return all(map(torch.equal, first, second)), torch.equal(first[0], other[0])


def compare_slopes(case: AttentionCase) -> tuple[float, float]:
    """The slope of the context's product with the gradient in a random direction, and the
    difference of two forward passes with the same seed.
    """
    inputs = make_inputs(case)
    gradients = run_kernel(inputs, case)[1:]
    torch.manual_seed(3)
    directions = [torch.randn_like(t) for t in gradients]

    def value(step: float) -> float:
        moved, variables = leaves(inputs)
        with torch.no_grad():
            for variable, direction in zip(variables, directions, strict=True):
                variable += step * direction
        out = run_kernel(moved, case)[0]
        return float((out.double() * inputs.gradient).sum())

    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    return slope, (value(STEP) - value(-STEP)) / (2 * STEP)
