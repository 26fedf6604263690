"""Triton kernels of LN(x + dropout(y)) and its gradient: a program has some rows, whole."""

from __future__ import annotations

from typing import Any, no_type_check

import triton
import triton.language as tl
from torch import Tensor

from toolkit.nn.ops.kernels.dropout import draw_row_bits, drop, dropout_numbers, keep_weights

NUMBERS = 2048
"""Numbers of each tensor that a program holds at a time, or those of one row."""


@triton.jit
@no_type_check  # Triton compiles the source, so the functions must not be wrapped
def normalize(total, inside, width, eps):
    """(total - mean) / deviation of each row, and 1 / deviation."""
    mean = tl.sum(total, 1) / width
    centered = tl.where(inside, total - mean[:, None], 0.0)
    inverse = 1 / tl.sqrt_rn(tl.sum(centered * centered, 1) / width + eps)
    return centered * inverse[:, None], inverse


@triton.jit
@no_type_check
def add_and_normalize(
    normed, totals, x, y, weight, bias, seed, rows, width, eps, threshold, scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """total = x + dropout(y), and weight * its normalized rows + bias."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    added = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
    added = drop(added, keep_weights(draw_row_bits(seed, row, 0), column, threshold, 0), scale)
    total = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) + added
    total = total.to(totals.dtype.element_ty)
    tl.store(totals + place, total, mask=inside)
    factor = tl.load(weight + column, mask=column < width, other=0.0)
    shift = tl.load(bias + column, mask=column < width, other=0.0)
    result, _ = normalize(total.to(tl.float32), inside, width, eps)
    result = result * factor[None, :] + shift[None, :]
    tl.store(normed + place, result.to(normed.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def differentiate(
    of_x, of_y, sums, gradient, totals, weight, seed, rows, width, eps, threshold, scale,
    SUMS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of x and y of every P-th block of rows, and the sums of those of weight and bias;
    if there are three SUMS, those of y too.

    With n the normalized row and h = gradient * weight, the gradient of x is
    (h - mean h - n mean(h n)) / deviation.
    """
    column, step = tl.arange(0, COLUMNS), tl.num_programs(0) * ROWS
    factor = tl.load(weight + column, mask=column < width, other=0.0)[None, :]
    of_weight = tl.zeros((ROWS, COLUMNS), tl.float32)
    of_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    of_added = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, step):
        row = first + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        total = tl.load(totals + place, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        normed, inverse = normalize(total, inside, width, eps)
        of_weight += g * normed
        of_bias += g
        h = g * factor
        means = tl.sum(h, 1)[:, None] / width + normed * (tl.sum(h * normed, 1)[:, None] / width)
        h = (h - means) * inverse[:, None]
        tl.store(of_x + place, h.to(of_x.dtype.element_ty), mask=inside)
        if seed is not None:
            bits = draw_row_bits(seed, row, 0)
            h = drop(h, keep_weights(bits, column, threshold, 0), scale)
            tl.store(of_y + place, h.to(of_y.dtype.element_ty), mask=inside)
        of_added += h
    sums += tl.program_id(0) * SUMS * width + column
    tl.store(sums, tl.sum(of_weight, 0), mask=column < width)
    tl.store(sums + width, tl.sum(of_bias, 0), mask=column < width)
    if SUMS == 3:
        tl.store(sums + 2 * width, tl.sum(of_added, 0), mask=column < width)


def blocks(width: int) -> dict[str, int]:
    """Rows and columns of a program's block."""
    columns = triton.next_power_of_2(width)
    return {"ROWS": max(1, NUMBERS // columns), "COLUMNS": columns}


def numbers(total: Tensor, eps: float, rate: float) -> tuple[Any, ...]:
    """The scalar arguments of both kernels: rows, width, epsilon and dropout."""
    width = total.shape[-1]
    return total.numel() // width, width, eps, *dropout_numbers(rate)


def launch_forward(
    results: tuple[Tensor, Tensor],
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    y_bias: Tensor | None,
    seed: Tensor | None,
    eps: float,
    rate: float,
) -> None:
    """Launch the forward kernel, which reads no `y_bias`, unless there are no rows."""
    sizes, given = blocks(x.shape[-1]), numbers(x, eps, rate)
    if x.numel():
        grid = (triton.cdiv(given[0], sizes["ROWS"]),)
        add_and_normalize[grid](*results, x, y, weight, bias, seed, *given, **sizes)


def launch_backward(
    results: tuple[Tensor, Tensor, Tensor],
    gradient: Tensor,
    total: Tensor,
    weight: Tensor,
    seed: Tensor | None,
    eps: float,
    rate: float,
    sums: int,
) -> None:
    """Launch the backward kernel, unless there are no rows."""
    sizes, given = blocks(total.shape[-1]), numbers(total, eps, rate)
    if total.numel():
        grid = (len(results[2]),)
        differentiate[grid](*results, gradient, total, weight, seed, *given, sums, **sizes)
