"""Sinusoidal position encodings."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.nn.ops.host_copy import copy_to_device


def sinusoidal_encodings(
    start: int, end: int, width: int, device: torch.device
) -> Float[Tensor, "S D"]:
    """sin and cos of p / 10000^(2c/D), p = start .. end - 1 (Vaswani et al. 2017, section 3.5).

    Sines are in the first half of the columns and cosines in the second, as in most code since
    then; the paper alternates them. Always in fp32.
    """
    if torch.compiler.is_exporting():  # lengths are symbols
        return compute_encodings(end, width)[start:].float().to(device)
    return cached_encodings(max(512, 1 << (end - 1).bit_length()), width, device)[start:end]


@lru_cache(maxsize=8)
def cached_encodings(length: int, width: int, device: torch.device) -> Float[Tensor, "S D"]:
    """The encodings in fp32 on a device; cached."""
    with torch.inference_mode(False):  # a cached inference tensor would fail in training
        return copy_to_device(compute_encodings(length, width).float(), device)


def compute_encodings(length: int, width: int) -> Float[Tensor, "S D"]:
    """sin(s / 10000^(2c/D)) for c = 0 .. D/2 - 1, then cos (Vaswani et al. 2017, section 3.5)."""
    channels = torch.arange(0, width, 2, dtype=torch.float64)
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    angles = positions * torch.exp(-math.log(10_000) / width * channels)
    return torch.cat([angles.sin(), angles[:, : width // 2].cos()], -1)
