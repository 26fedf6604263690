"""The Triton kernel of GELU's gradient: a program has blocks of rows of some columns."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 16, 128
"""Of a block."""


@triton.jit
@no_type_check  # Triton compiles the source, so the function must not be wrapped
def differentiate(of_x, sums, gradient, x, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """gradient (Phi(x) + x phi(x)) of every P-th block of rows, and the sums of its columns."""
    column, step = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS), tl.num_programs(0) * ROWS
    exists = column < width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, step):
        row = first + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & exists[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        below = 0.5 * (1 + tl.math.erf(value * 0.7071067811865476))
        g *= below + value * 0.3989422804014327 * tl.exp(-0.5 * value * value)
        total += g
        tl.store(of_x + place, g.to(of_x.dtype.element_ty), mask=inside)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=exists)


def launch(of_x: Tensor, sums: Tensor, gradient: Tensor, x: Tensor) -> None:
    """Launch the kernel, unless there are no rows."""
    width = x.shape[-1]
    if x.numel():
        grid = len(sums), triton.cdiv(width, COLUMNS)
        differentiate[grid](of_x, sums, gradient, x, x.numel() // width, width, ROWS, COLUMNS)
