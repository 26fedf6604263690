"""The Triton kernel of `cross_entropy.py`: a program reads a row of logits twice."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 4096
"""Logits of a row that a program holds at a time."""
WARPS = 8
LOWEST = tl.constexpr(-1e30)
"""Stands for -inf, whose difference from itself is not a number."""


@triton.jit
@no_type_check  # Triton compiles the source, so the functions must not be wrapped
def load_logits(row, column, classes):
    """Logits of one row in fp32; LOWEST for columns beyond the last class."""
    return tl.load(row + column, mask=column < classes, other=LOWEST).to(tl.float32)


@triton.jit
@no_type_check
def sum_exponentials(row, classes, COLUMNS: tl.constexpr):
    """log sum_c exp(x_c) of a row, and sum_c x_c."""
    column = tl.arange(0, COLUMNS)
    top = tl.full((COLUMNS,), LOWEST, tl.float32)
    exponentials = tl.zeros((COLUMNS,), tl.float32)
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, classes, COLUMNS):
        x = load_logits(row, start + column, classes)
        higher = tl.maximum(top, x)
        exponentials = exponentials * tl.exp(top - higher) + tl.exp(x - higher)
        total += tl.where(start + column < classes, x, 0.0)
        top = higher
    highest = tl.max(top, 0)
    return highest + tl.log(tl.sum(exponentials * tl.exp(top - highest), 0)), tl.sum(total, 0)


@triton.jit
@no_type_check
def differentiate(
    logits, targets, valid, losses, classes, padded_classes, smoothing, COLUMNS: tl.constexpr
):  # fmt: skip
    """The loss of a row; its gradient takes the place of the logits."""
    number = tl.program_id(0).to(tl.int64)
    row, target = logits + number * padded_classes, tl.load(targets + number)
    factor = tl.load(valid + number).to(tl.float32)
    score = tl.load(row + target).to(tl.float32)
    logsumexp, total = sum_exponentials(row, classes, COLUMNS)
    mean = smoothing * (total / classes)
    tl.store(losses + number, factor * (logsumexp - (1 - smoothing) * score - mean))
    for start in range(0, padded_classes, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        p = tl.exp(load_logits(row, column, classes) - logsumexp) - smoothing / classes
        p = tl.where(column == target, p - (1 - smoothing), p)
        p = tl.where(column < classes, p * factor, 0.0).to(logits.dtype.element_ty)
        tl.store(row + column, p, mask=column < padded_classes)


def launch(
    logits: Tensor, targets: Tensor, valid: Tensor, losses: Tensor, classes: int, smoothing: float
) -> None:
    """Launch one program per row; losses and gradients are written in place."""
    columns = min(COLUMNS, triton.next_power_of_2(logits.shape[1]))
    if len(logits):
        differentiate[(len(logits),)](
            *(logits, targets, valid, losses, classes, logits.shape[1], smoothing),
            **{"COLUMNS": columns, "num_warps": WARPS},
        )
