"""Dynamic convolution (one kernel per position) as Triton kernels for GPUs, registered operations.

B batch   S positions   H heads   K head width   R taps, 2 * radius + 1   N = B H

Each program computes a few rows of one head with sums in fp32. Nothing is unfolded.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from toolkit.nn.ops.kernels import define

ROWS = 32
"""Positions per program."""


def triton_dynamic_convolution(
    taps: Float[Tensor, "B H S R"], v: Float[Tensor, "B H S K"]
) -> Float[Tensor, "B H S K"]:
    """out_i = sum_m taps_{i, m + radius} v_{i+m}, zeros beyond the ends."""
    return convolve(taps.contiguous(), v.contiguous())


@triton.jit
@no_type_check  # Triton compiles the source, so the function must not be wrapped
def _convolve(
    taps,
    v,
    out,
    length,
    width,
    TAPS: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """out_i = sum_m taps_{i,m} v_{i+m}; transposed, out_j = sum_m taps_{j-m,m} v_{j-m}."""
    head = tl.program_id(0).to(tl.int64) * length
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for tap in range(TAPS):
        neighbor = row - (tap - TAPS // 2) if TRANSPOSED else row + (tap - TAPS // 2)
        tap_row = neighbor if TRANSPOSED else row
        inside = (neighbor >= 0) & (neighbor < length) & (row < length)
        weight = tl.load(taps + (head + tap_row) * TAPS + tap, mask=inside, other=0.0)
        index = (head + neighbor)[:, None] * width + channels
        near = tl.load(v + index, mask=inside[:, None] & (channels < width), other=0.0)
        total += weight.to(tl.float32)[:, None] * near.to(tl.float32)
    index = (head + row)[:, None] * width + channels
    tl.store(out + index, total, mask=(row < length)[:, None] & (channels < width))


@triton.jit
@no_type_check
def _correlate(
    g, v, out, length, width, TAPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """out_{i,m} = g_i . v_{i+m}."""
    head = tl.program_id(0).to(tl.int64) * length
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, WIDTH)[None, :]
    valid = (row < length)[:, None] & (channels < width)
    index = (head + row)[:, None] * width + channels
    own = tl.load(g + index, mask=valid, other=0.0).to(tl.float32)
    for tap in range(TAPS):
        neighbor = row + (tap - TAPS // 2)
        inside = ((neighbor >= 0) & (neighbor < length))[:, None] & valid
        index = (head + neighbor)[:, None] * width + channels
        near = tl.load(v + index, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + (head + row) * TAPS + tap, tl.sum(own * near, 1), mask=row < length)


def launch_convolution(taps: Tensor, v: Tensor, *, transposed: bool) -> Tensor:
    """Launch the kernel that convolves v with the taps, or with their transpose."""
    heads, length, width = v.shape[0] * v.shape[1], v.shape[2], v.shape[3]
    out, padded_width = torch.empty_like(v), triton.next_power_of_2(width)
    grid = (heads, triton.cdiv(length, ROWS))
    _convolve[grid](taps, v, out, length, width, taps.shape[-1], transposed, ROWS, padded_width)
    return out


@define("toolkit::dynamic_convolution", schema="(Tensor taps, Tensor v) -> Tensor")
def convolve(taps: Tensor, v: Tensor) -> Tensor:
    """out_i = sum_m taps_{i,m} v_{i+m}."""
    return launch_convolution(taps, v, transposed=False)


@define("toolkit::dynamic_convolution_transposed", schema="(Tensor taps, Tensor v) -> Tensor")
def convolve_transposed(taps: Tensor, v: Tensor) -> Tensor:
    """out_j = sum_m taps_{j-m,m} v_{j-m}."""
    return launch_convolution(taps, v, transposed=True)


@define("toolkit::correlate_windows", schema="(Tensor g, Tensor v, SymInt taps) -> Tensor")
def correlate(g: Tensor, v: Tensor, taps: int) -> Tensor:
    """out_{i,m} = g_i . v_{i+m}."""
    heads, length, width = v.shape[0] * v.shape[1], v.shape[2], v.shape[3]
    out, padded_width = allocate_taps(g, v, taps), triton.next_power_of_2(width)
    grid = (heads, triton.cdiv(length, ROWS))
    _correlate[grid](g, v, out, length, width, taps, ROWS, padded_width)
    return out


for convolution in (convolve, convolve_transposed):
    convolution.register_fake(lambda taps, v: torch.empty_like(v))


@correlate.register_fake
def allocate_taps(g: Tensor, v: Tensor, taps: int) -> Tensor:
    """Shape of the gradient of the taps, for compilers."""
    return v.new_empty(*v.shape[:3], taps)


def save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    """Save the taps and the values for the backward pass."""
    ctx.save_for_backward(*inputs)


def differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the taps and of the values."""
    taps, v = ctx.saved_tensors
    gradient = gradient.contiguous()
    return correlate(gradient, v, taps.shape[-1]), convolve_transposed(taps, gradient)


def convolution_flops(taps: torch.Size, v: torch.Size, **named: object) -> int:
    """A multiply-add for each tap and channel."""
    return 2 * taps.numel() * v[-1]


def correlation_flops(g: torch.Size, v: torch.Size, taps: int, **named: object) -> int:
    """FLOPs of the gradient of the taps."""
    return 2 * v.numel() * taps


convolve.register_autograd(differentiate, setup_context=save_inputs)
register_flop_formula(torch.ops.toolkit.dynamic_convolution)(convolution_flops)
register_flop_formula(torch.ops.toolkit.dynamic_convolution_transposed)(convolution_flops)
register_flop_formula(torch.ops.toolkit.correlate_windows)(correlation_flops)
