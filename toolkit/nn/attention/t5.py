"""t5: a number per bucket of offsets (Raffel et al. 2020)."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_position
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.offsets import scatter_to_diagonals
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import ScoreTerm
from toolkit.nn.init import copy_to_device


@register_position("t5", PositionOptions())
class T5(Position[PositionOptions]):
    """A number per head and bucket."""

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        return [BucketBias(shape.heads, left_only=shape.causal)]


class BucketBias(ScoreTerm):
    """beta_{h, bucket(j - i)} (Raffel et al. 2020, section 2.1).

    The defaults are T5's; larger distances share the last bucket. Each layer has separate biases;
    the authors' layers share those of the first. With `left_only` all buckets are for positions on
    the left.
    """

    def __init__(
        self, heads: int, buckets: int = 32, max_distance: int = 128, *, left_only: bool = False
    ) -> None:
        super().__init__()
        self.max_distance, self.left_only = max_distance, left_only
        self.numbers = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        queries, keys, offsets = p.q.shape[2], p.k.shape[2], p.sequence.offsets
        if torch.compiler.is_exporting():  # lengths are symbols
            buckets, left_only = self.numbers.shape[1], self.left_only
            index = bucket_indices(
                offsets.differences, buckets, self.max_distance, left_only=left_only
            )
            by_pair = self.numbers[:, index].transpose(0, 1)  # (H, B, S, T) -> (B, H, S, T)
            return by_pair.to(p.q.dtype)
        if not offsets.shared:
            taps = self.by_offset(offsets.max_offset + 1).to(p.q.dtype)
            return scatter_to_diagonals(taps[None, :, None].expand(-1, -1, queries, -1), offsets)
        diagonals = self.by_offset(keys)[:, : keys + queries - 1]
        # The query at position i reads T numbers from offset -i; the last query is at T - 1.
        bias = diagonals.unfold(-1, keys, 1).flip(1)  # (H, T + S - 1) -> (H, S, T)
        return bias[None].to(p.q.dtype)

    def by_offset(self, length: int) -> Float[Tensor, "H O"]:
        """The number of each offset 1 - length .. length - 1."""
        device, buckets = self.numbers.device, self.numbers.shape[1]
        one_hot = bucket_one_hot(length, buckets, self.max_distance, self.left_only, device)
        return self.numbers @ one_hot.to(self.numbers.dtype).mT


@lru_cache(maxsize=8)
def bucket_one_hot(
    length: int, buckets: int, max_distance: int, left_only: bool, device: torch.device
) -> Float[Tensor, "O U"]:
    """1 at the bucket of each offset 1 - length .. length - 1, else 0.

    The gradient of a product with it is summed in a fixed order.
    """
    with torch.inference_mode(False):
        offsets = torch.arange(1 - length, length)
        indices = bucket_indices(offsets, buckets, max_distance, left_only=left_only)
        return copy_to_device(F.one_hot(indices, buckets).float(), device)


def bucket_indices(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int, *, left_only: bool
) -> Int[Tensor, " O"]:
    """Buckets of offsets j - i (Raffel et al. 2020, section 2.1).

    Half of the buckets are for one near offset each; the others grow logarithmically up to
    `max_distance`, and the last takes all larger offsets. Unless `left_only`, the second half of
    all buckets is for j > i.
    """
    side = torch.zeros_like(offsets)
    distance = (-offsets).clamp(min=0)
    if not left_only:
        buckets //= 2
        side, distance = (offsets > 0) * buckets, offsets.abs()
    near = buckets // 2
    far = (distance.clamp(min=1) / near).log() / math.log(max_distance / near) * (buckets - near)
    wide = (near + far.long()).clamp(max=buckets - 1)
    return side + torch.where(distance < near, distance, wide)
