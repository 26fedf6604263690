"""Dynamic convolution (one kernel per position) as products with banded matrices.

B batch   S positions   H heads   K head width   R taps, 2 * radius + 1   C positions of a block

out_i = sum_m w_{i,m} v_{i+m} is the product of a matrix with R diagonals and the values, cut into
blocks of C rows with C + 2 radius columns: S (C + 2 radius) numbers per head instead of the S R K
of unfolded values.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.kernels import triton_runs

BLOCK = 32
"""Minimum rows of a block, a multiple of the vector width; wider kernels have larger blocks."""


def dynamic_convolution(
    taps: Float[Tensor, "B H S R"], v: Float[Tensor, "B H S K"]
) -> Float[Tensor, "B H S K"]:
    """out_i = sum_m taps_{i, m + radius} v_{i+m}, zeros beyond the ends; by a kernel on a GPU."""
    if triton_runs(v.device, v.dtype):
        from toolkit.nn.ops.kernels.banded_convolution import triton_dynamic_convolution

        return triton_dynamic_convolution(taps, v)
    if torch.compiler.is_exporting() or not fast("banded_convolution"):
        return convolve_by_tap(taps, v)
    return _BandedConvolution.apply(taps, v)


def convolve_by_tap(
    taps: Float[Tensor, "B H S R"], v: Float[Tensor, "B H S K"]
) -> Float[Tensor, "B H S K"]:
    """The sum, tap by tap, in operations that other runtimes have."""
    count, length = taps.shape[-1], v.shape[2]
    padded = F.pad(v, (0, 0, count // 2, count // 2))
    out = taps[..., :1] * padded[:, :, :length]
    for tap in range(1, count):
        out = out + taps[..., tap : tap + 1] * padded[:, :, tap : tap + length]
    return out


def block_size(length: int, taps: int) -> int:
    """Rows of a block: at least the taps but one, at most the length."""
    return min(length, max(BLOCK, taps - 1))


def to_bands(taps: Float[Tensor, "N S R"], block: int) -> Float[Tensor, "M C W"]:
    """Taps on the diagonals of each block: W = C + R - 1 columns, M = N S / C blocks."""
    count, length, tap_count = taps.shape
    bands = taps.new_zeros(count * length // block, block, block + tap_count - 1)
    band_diagonals(bands, tap_count).copy_(taps.reshape(len(bands), block, -1))
    return bands


def band_diagonals(bands: Float[Tensor, "M C W"], taps: int) -> Float[Tensor, "M C R"]:
    """The taps on the diagonals, as a view."""
    block, width = bands.shape[1:]
    return bands.as_strided((len(bands), block, taps), (block * width, width + 1, 1))


def block_windows(v: Float[Tensor, "N S K"], block: int, taps: int) -> Float[Tensor, "M W K"]:
    """The values that each block of positions reads; zeros beyond the ends."""
    count, length, channels = v.shape
    padded = F.pad(v, (0, 0, taps // 2, taps // 2))
    strides = (padded.stride(0), block * channels, channels, 1)
    shape = (count, length // block, block + taps - 1, channels)
    return padded.as_strided(shape, strides).flatten(0, 1)


def transpose_taps(taps: Float[Tensor, "N S R"]) -> Float[Tensor, "N S R"]:
    """Taps of the transposed convolution, as a view: out_{j,m} = taps_{j+m,-m}."""
    tap_count = taps.shape[-1]
    padded = F.pad(taps, (0, 0, tap_count // 2, tap_count // 2))
    strides = (padded.stride(0), tap_count, tap_count - 1)
    return padded.as_strided(taps.shape, strides, tap_count - 1)


def pad_to_blocks(x: Float[Tensor, "B H S _"], block: int) -> Float[Tensor, "N P _"]:
    """Batch and heads as one axis, with zeros after the last position up to whole blocks."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).flatten(0, 1).contiguous()


def convolve_blocks(taps: Float[Tensor, "N P R"], v: Float[Tensor, "N P K"], block: int) -> Tensor:
    """The convolution of one kernel per position, as a product per block of positions."""
    return (to_bands(taps, block) @ block_windows(v, block, taps.shape[-1])).view(v.shape)


class _BandedConvolution(torch.autograd.Function):
    """The gradient of the values is a convolution, that of the taps the diagonals of a product."""

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
        grad_v = convolve_blocks(transpose_taps(w), g, block)[:, :length]
        windows = block_windows(pad_to_blocks(v, block), block, count)
        products = g.view(-1, block, g.shape[-1]) @ windows.mT
        grad_taps = band_diagonals(products, count).reshape(*w.shape[:2], count)[:, :length]
        return grad_taps.unflatten(0, v.shape[:2]), grad_v.unflatten(0, v.shape[:2])
