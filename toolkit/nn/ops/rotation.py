"""Rotation of pairs of columns, as one operation whose backward pass rotates back."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.dispatch import fast

CACHED_TABLES = 8


class Rotations(NamedTuple):
    """Angles of positions, one for each pair of columns."""

    cosines: Float[Tensor, "#B 1 S K2"]
    sines: Float[Tensor, "#B 1 S K2"]


def compute_rotations(
    positions: Int[Tensor, "B S"], width: int, base: float, dtype: torch.dtype
) -> Rotations:
    """cos and sin of p base^(-2c / K), c = 0 .. K / 2 - 1 (Su et al. 2021, eq. 15)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, device=positions.device, dtype=precise)
    frequencies = torch.exp(-math.log(base) / width * channels)
    angles = positions[:, None, :, None].to(precise) * frequencies
    return Rotations(angles.cos().to(dtype), angles.sin().to(dtype))


@lru_cache(maxsize=CACHED_TABLES)
def cached_rotations(
    start: int, end: int, width: int, base: float, device: torch.device, dtype: torch.dtype
) -> Rotations:
    """The rotations of positions start .. end - 1; cached."""
    with torch.inference_mode(False):  # a cached inference tensor would fail in training
        positions = torch.arange(start, end, device=device)[None]
        return compute_rotations(positions, width, base, dtype)


def rotate(x: Float[Tensor, "B H S K"], rotations: Rotations) -> Float[Tensor, "B H S K"]:
    """(a cos - b sin, b cos + a sin) for the halves a and b of the columns."""
    cosines, sines = rotations
    if x.device.type == "cpu" and fast("rotation") and not torch.compiler.is_compiling():
        rotated: Tensor = _Rotation.apply(x, cosines, sines)
        return rotated
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


def rotate_halves(x: Tensor, cosines: Tensor, sines: Tensor, sign: int) -> Tensor:
    """The rotation by the angle times `sign`; whole rows are multiplied faster than halves."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.mul(x, torch.cat([cosines, cosines], -1), out=out)
    a, b = x.chunk(2, -1)
    of_a, of_b = out.chunk(2, -1)
    of_a.addcmul_(b, sines, value=-sign)
    of_b.addcmul_(a, sines, value=sign)
    return out


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cosines, sines):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(cosines, sines)
        return rotate_halves(x, cosines, sines, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        cosines, sines = ctx.saved_tensors
        return rotate_halves(gradient, cosines, sines, -1), None, None
