"""Rotation of pairs of columns by the angles of positions."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rotations = tuple[Float[Tensor, "#B 1 S K2"], Float[Tensor, "#B 1 S K2"]]
"""Cosines and sines of the angles of positions, one for each pair of columns."""


def compute_rotations(
    positions: Int[Tensor, "B S"], width: int, base: float, dtype: torch.dtype
) -> Rotations:
    """cos and sin of p base^(-2c / K), c = 0 .. K / 2 - 1 (Su et al. 2021, eq. 15)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, device=positions.device, dtype=precise)
    frequencies = torch.exp(-math.log(base) / width * channels)
    angles = positions[:, None, :, None].to(precise) * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Float[Tensor, "B H S K"], rotations: Rotations) -> Float[Tensor, "B H S K"]:
    """(a cos - b sin, b cos + a sin) for the halves a and b of the columns."""
    cosines, sines = rotations
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)
