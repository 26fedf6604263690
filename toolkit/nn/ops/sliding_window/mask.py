"""Score biases that mask the keys outside a window."""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.nn.ops.attention import MASKED_SCORE

CACHED_MASKS = 16


def mask_outside(
    differences: Int[Tensor, "#B S T"], radius: int, dtype: torch.dtype
) -> Float[Tensor, "#B 1 S T"]:
    """0 where |p_j - p_i| <= radius, else a score whose exp is 0 (Beltagy et al. 2020, 3.1)."""
    outside = (differences.abs() > radius).unsqueeze(1)  # (#B, S, T) -> (#B, 1, S, T)
    return outside.to(dtype) * MASKED_SCORE


@lru_cache(maxsize=CACHED_MASKS)
def cached_mask(
    queries: int, keys: int, first: int, radius: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "1 1 S T"]:
    """The mask of queries at the positions first, first + 1, ... and keys at 0, 1, ..."""
    with torch.inference_mode(False):
        positions = torch.arange(first, first + queries, device=device)
        differences = torch.arange(keys, device=device) - positions[:, None]
        return mask_outside(differences[None], radius, dtype)
