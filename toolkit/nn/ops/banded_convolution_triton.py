"""Dynamic convolution (one kernel per position) as Triton kernels for GPUs.

B batch   S places   H heads   K head width   R taps, 2 * radius + 1   N = B H

Each program computes a few rows of one head, its sums in fp32; nothing is unfolded, and values
are read from the cache R times. `toolkit/nn/ops/banded_convolution.py` says what is computed; a
test compares the two on a GPU.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 32
"""Places that one program computes."""


def triton_dynamic_convolution(
    taps: Float[Tensor, "B H S R"], v: Float[Tensor, "B H S K"]
) -> Float[Tensor, "B H S K"]:
    """out_i = sum_m taps_{i, m + radius} v_{i+m}, zeros beyond the ends."""
    out: Tensor = _TritonConvolution.apply(taps.contiguous(), v.contiguous())
    return out


@triton.jit
@no_type_check  # Triton reads the source: nothing may be wrapped around it
def _convolve(
    taps,
    v,
    out,
    places,
    width,
    TAPS: tl.constexpr,
    TURNED: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """out_i = sum_m taps_{i,m} v_{i+m}; turned, out_j = sum_m taps_{j-m,m} v_{j-m}."""
    head = tl.program_id(0).to(tl.int64) * places
    here = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for tap in range(TAPS):
        there = here - (tap - TAPS // 2) if TURNED else here + (tap - TAPS // 2)
        whose = there if TURNED else here
        inside = (there >= 0) & (there < places) & (here < places)
        weight = tl.load(taps + (head + whose) * TAPS + tap, mask=inside, other=0.0)
        at = (head + there)[:, None] * width + channels
        near = tl.load(v + at, mask=inside[:, None] & (channels < width), other=0.0)
        total += weight.to(tl.float32)[:, None] * near.to(tl.float32)
    at = (head + here)[:, None] * width + channels
    tl.store(out + at, total, mask=(here < places)[:, None] & (channels < width))


@triton.jit
@no_type_check
def _correlate(
    g, v, out, places, width, TAPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """out_{i,m} = g_i . v_{i+m}."""
    head = tl.program_id(0).to(tl.int64) * places
    here = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channels = tl.arange(0, WIDTH)[None, :]
    known = (here < places)[:, None] & (channels < width)
    at = (head + here)[:, None] * width + channels
    mine = tl.load(g + at, mask=known, other=0.0).to(tl.float32)
    for tap in range(TAPS):
        there = here + (tap - TAPS // 2)
        inside = ((there >= 0) & (there < places))[:, None] & known
        at = (head + there)[:, None] * width + channels
        near = tl.load(v + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + (head + here) * TAPS + tap, tl.sum(mine * near, 1), mask=here < places)


def launch_convolution(taps: Tensor, v: Tensor, *, turned: bool) -> Tensor:
    heads, places, width = v.shape[0] * v.shape[1], v.shape[2], v.shape[3]
    out, across = torch.empty_like(v), triton.next_power_of_2(width)
    grid = (heads, triton.cdiv(places, ROWS))
    _convolve[grid](taps, v, out, places, width, taps.shape[-1], turned, ROWS, across)
    return out


def launch_correlation(gradient: Tensor, v: Tensor, taps: int) -> Tensor:
    heads, places, width = v.shape[0] * v.shape[1], v.shape[2], v.shape[3]
    out, across = v.new_empty(*v.shape[:3], taps), triton.next_power_of_2(width)
    grid = (heads, triton.cdiv(places, ROWS))
    _correlate[grid](gradient, v, out, places, width, taps, ROWS, across)
    return out


class _TritonConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, taps, v):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(taps, v)
        return launch_convolution(taps, v, turned=False)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        taps, v = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_taps = launch_correlation(gradient, v, taps.shape[-1])
        return of_taps, launch_convolution(taps, gradient, turned=True)
