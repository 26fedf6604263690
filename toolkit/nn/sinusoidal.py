"""Sinusoidal position encodings."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.nn.memory import copy_to_device


def sinusoidal_encodings(
    start: int,
    end: int,
    width: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "S D"]:
    """sin and cos of p / 10000^(2c/D), p = start .. end - 1 (Vaswani et al. 2017, section 3.5).

    Sines are in the first half of the columns and cosines in the second, as in most code since
    then; the paper alternates them.
    """
    if torch.compiler.is_exporting():  # lengths are symbols
        return compute_encodings(torch.arange(start, end), width).to(device, dtype)
    if start < 0:
        return cached_encodings(start, end, width, device, dtype)
    end_of_table = max(512, 1 << (end - 1).bit_length())
    return cached_encodings(0, end_of_table, width, device, dtype)[start:end]


@lru_cache(maxsize=8)
def cached_encodings(
    start: int, end: int, width: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "S D"]:
    """The encodings of positions on a device; cached."""
    with torch.inference_mode(False):  # a cached inference tensor would fail in training
        encodings = compute_encodings(torch.arange(start, end), width)
        return copy_to_device(encodings.to(dtype), device)


def encode_positions(
    positions: Int[Tensor, "*shape"], width: int, dtype: torch.dtype
) -> Float[Tensor, "*shape D"]:
    """The encodings of position ids, which may be negative."""
    return compute_encodings(positions, width).to(dtype)


def compute_encodings(positions: Int[Tensor, "*shape"], width: int) -> Float[Tensor, "*shape D"]:
    """sin(p / 10000^(2c/D)) for c = 0 .. D/2 - 1, then cos (Vaswani et al. 2017, section 3.5)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, dtype=precise, device=positions.device)
    frequencies = torch.exp(-math.log(10_000) / width * channels)
    angles = positions.to(precise)[..., None] * frequencies
    return torch.cat([angles.sin(), angles[..., : width // 2].cos()], -1)
