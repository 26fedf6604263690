"""Where a word stands, as waves."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor


def sinusoidal_encodings(
    start: int, end: int, width: int, device: torch.device
) -> Float[Tensor, "S D"]:
    """sin(p / 10000^(2c/D)) and cos of it, p = first .. end - 1 (Vaswani et al. 2017, 3.5).

    The sines stand in the first half of the columns and the cosines in the second, as in most code
    since then; the paper lets them take turns. In fp32, whatever the model computes in.
    """
    return cached_encodings(max(512, 1 << (end - 1).bit_length()), width, device)[start:end]


@lru_cache(maxsize=8)
def cached_encodings(length: int, width: int, device: torch.device) -> Float[Tensor, "S D"]:
    with torch.inference_mode(False):  # a kept inference tensor could not serve training later
        channels = torch.arange(0, width, 2, dtype=torch.float64)
        places = torch.arange(length, dtype=torch.float64)[:, None]
        angles = places * torch.exp(-math.log(10_000) / width * channels)
        waves = torch.cat([angles.sin(), angles[:, : width // 2].cos()], -1)
        return waves.float().to(device)
