"""Embedding of offsets in logarithmic buckets, shared by all layers (He et al. 2021)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.init import copy_to_device
from toolkit.nn.ops.layer_norm import LayerNorm


class OffsetVectors(NamedTuple):
    """Vectors of the offsets -m .. m of a batch."""

    vectors: Float[Tensor, "R E"]
    rows: Int[Tensor, " O"] | None
    """Row of each offset, if several share one; O = 2 m + 1."""


class OffsetEmbedding(nn.Module):
    """LN(table)[bucket(i - j)], with one row for each bucket from -buckets to buckets - 1.

    Offsets up to half of the buckets have one each; the others grow logarithmically up to
    `max_distance` (DeBERTa's second version, code).
    """

    def __init__(self, buckets: int, max_distance: int, width: int, eps: float) -> None:
        super().__init__()
        self.buckets, self.max_distance = buckets, max_distance
        self.table = nn.Embedding(2 * buckets, width)
        self.norm = LayerNorm(width, eps=eps)

    def forward(self, max_offset: int) -> OffsetVectors:
        """Vectors of the offsets -max_offset .. max_offset."""
        if torch.compiler.is_exporting():  # lengths are symbols
            offsets = torch.arange(-max_offset, max_offset + 1, device=self.table.weight.device)
            buckets = clipped_buckets(offsets, self.buckets, self.max_distance)
            return OffsetVectors(self.norm(self.table.weight), self.buckets + buckets)
        first, end, rows = bucket_rows(max_offset, self.buckets, self.max_distance)
        vectors = self.norm(self.table.weight[first:end])
        if rows is not None:
            rows = copy_to_device(rows, vectors.device)
        return OffsetVectors(vectors, rows)


@lru_cache(maxsize=8)
def bucket_rows(
    max_offset: int, buckets: int, max_distance: int
) -> tuple[int, int, Int[Tensor, " O"] | None]:
    """First and last row in use, and the rows from there; None if they are 0, 1, 2, ..."""
    with torch.inference_mode(False):
        offsets = torch.arange(-max_offset, max_offset + 1)
        rows = clipped_buckets(offsets, buckets, max_distance)
        first, end = buckets + int(rows[0]), buckets + int(rows[-1]) + 1
        in_order = end - first == len(offsets)
        return first, end, None if in_order else rows - rows[0]


def clipped_buckets(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int
) -> Int[Tensor, " O"]:
    """Buckets -n .. n - 1 for n rows on each side; larger offsets have the outermost."""
    return logarithmic_buckets(offsets, buckets, max_distance).clamp(-buckets, buckets - 1)


def logarithmic_buckets(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int
) -> Int[Tensor, " O"]:
    """sign(o) ceil(log(|o| / n) / log((max_distance - 1) / n) (n - 1)) + n, n = buckets / 2, for
    |o| > n; smaller offsets are their own buckets.
    """
    near = buckets // 2
    ratio = (offsets.abs().clamp(min=1).double() / near).log() / math.log((max_distance - 1) / near)
    far = (ratio * (near - 1)).ceil().long() + near
    return torch.where(offsets.abs() <= near, offsets, far * offsets.sign())
