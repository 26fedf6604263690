"""Dynamic convolution (one kernel per position) as products with narrow bands.

B batch   S places   H heads   K head width   R taps, 2 * radius + 1   C places of a block

out_i = sum_m w_{i,m} v_{i+m} is a product of a matrix with R diagonals and the values. Cut into
blocks of C rows, such a matrix has C + 2 radius columns where it is not 0: numbers laid out are
S (C + 2 radius) a head, not the S R K of the values unfolded (Jiang et al. 2020 call their own code
"not well optimized"), and products are what processors are fastest at.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

BLOCK = 32
"""Rows of a block; a multiple of what is vectorised. Wider kernels have wider blocks."""


def dynamic_convolution(
    taps: Float[Tensor, "B H S R"], v: Float[Tensor, "B H S K"]
) -> Float[Tensor, "B H S K"]:
    """out_i = sum_m taps_{i, m + radius} v_{i+m}, zeros beyond the ends.

    On a GPU by the kernels of `triton_dynamic_convolution.py`, where torch has brought Triton
    along.
    """
    if v.is_cuda and v.dtype != torch.float64 and has_triton():
        from toolkit.nn.ops.banded_convolution_triton import triton_dynamic_convolution

        return triton_dynamic_convolution(taps, v)
    out: Tensor = _BandedConvolution.apply(taps, v)
    return out


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


def block_size(length: int, taps: int) -> int:
    """No fewer rows than the kernel reaches to both sides, no more than there are."""
    return min(length, max(BLOCK, taps - 1))


def to_bands(taps: Float[Tensor, "N S R"], block: int) -> Float[Tensor, "M C W"]:
    """Taps laid along the diagonals, block by block: W = C + R - 1 columns, M = N S / C."""
    count, places, taps_each = taps.shape
    width = block + taps_each - 1
    laid = taps.new_zeros(count * places // block, block, width)
    strides = (block * width, width + 1, 1)
    laid.as_strided((len(laid), block, taps_each), strides).copy_(
        taps.reshape(len(laid), block, -1)
    )
    return laid


def band_diagonals(laid: Float[Tensor, "M C W"], taps: int) -> Float[Tensor, "M C R"]:
    """What `bands` has laid out, as a view."""
    block, width = laid.shape[1:]
    return laid.as_strided((len(laid), block, taps), (block * width, width + 1, 1))


def block_windows(v: Float[Tensor, "N S K"], block: int, taps: int) -> Float[Tensor, "M W K"]:
    """The values that each block of places sees; zeros beyond the ends."""
    count, places, channels = v.shape
    padded = F.pad(v, (0, 0, taps // 2, taps // 2))
    strides = (padded.stride(0), block * channels, channels, 1)
    shape = (count, places // block, block + taps - 1, channels)
    return padded.as_strided(shape, strides).flatten(0, 1)


def transpose_taps(taps: Float[Tensor, "N S R"]) -> Float[Tensor, "N S R"]:
    """Taps from the neighbor's side, as a view: turned_{j,m} = taps_{j+m,-m}."""
    count, places, taps_each = taps.shape
    padded = F.pad(taps, (0, 0, taps_each // 2, taps_each // 2))
    strides = (padded.stride(0), taps_each, taps_each - 1)
    return padded.as_strided((count, places, taps_each), strides, taps_each - 1)


def pad_to_blocks(x: Float[Tensor, "B H S _"], block: int) -> Float[Tensor, "N P _"]:
    """Heads in a row, zeros after the last place up to a whole number of blocks."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).flatten(0, 1).contiguous()


def convolve_blocks(taps: Float[Tensor, "N P R"], v: Float[Tensor, "N P K"], block: int) -> Tensor:
    return (to_bands(taps, block) @ block_windows(v, block, taps.shape[-1])).view(v.shape)


class _BandedConvolution(torch.autograd.Function):
    """Backwards the same: to the values a convolution with turned taps, to the taps diagonals."""

    @staticmethod
    def forward(ctx, taps, v):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(taps, v)
        block = block_size(v.shape[2], taps.shape[-1])
        out = convolve_blocks(pad_to_blocks(taps, block), pad_to_blocks(v, block), block)
        return out[:, : v.shape[2]].unflatten(0, v.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        taps, v = ctx.saved_tensors
        length, count = v.shape[2], taps.shape[-1]
        block = block_size(length, count)
        g, w = pad_to_blocks(gradient, block), pad_to_blocks(taps, block)
        of_v = convolve_blocks(transpose_taps(w), g, block)[:, :length].unflatten(0, v.shape[:2])
        products = (
            g.view(-1, block, g.shape[-1]) @ block_windows(pad_to_blocks(v, block), block, count).mT
        )
        of_taps = band_diagonals(products, count).reshape(*w.shape[:2], count)
        return of_taps[:, :length].unflatten(0, v.shape[:2]), of_v
