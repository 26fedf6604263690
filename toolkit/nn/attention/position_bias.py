"""Numbers for offsets that lie in buckets, the wider the farther (Raffel et al. 2020)."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.terms import ScoreTerm
from toolkit.nn.init import glorot_normal_


class BucketBias(ScoreTerm):
    """beta_{h, bucket(j - i)} (Raffel et al. 2020, section 2.1), for places in plain order.

    Each layer has its own numbers; the authors' layers share those of the first. `left_only`, all
    buckets are of places to the left, and none is spent on those that are never seen.
    """

    def __init__(
        self, heads: int, buckets: int, max_distance: int, *, left_only: bool = False
    ) -> None:
        super().__init__()
        self.max_distance, self.left_only = max_distance, left_only
        self.numbers = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H S T"]:
        queries, keys = p.q.shape[2], p.k.shape[2]
        assert p.sequence.offsets.shared, "buckets are read along the diagonals"
        device, buckets = self.numbers.device, self.numbers.shape[1]
        chosen = bucket_one_hot(
            keys, buckets, self.max_distance, self.left_only, device
        )  # from 1 - T to T - 1
        diagonals = self.numbers @ chosen[: keys + queries - 1].to(self.numbers.dtype).mT
        # The query at place i reads T numbers from offset -i on; the last query is at T - 1.
        laid = diagonals.unfold(-1, keys, 1).flip(1)  # (H, T + S - 1) -> (H, S, T)
        return laid[None].to(p.q.dtype)


@lru_cache(maxsize=8)
def bucket_one_hot(
    length: int, buckets: int, max_distance: int, left_only: bool, device: torch.device
) -> Float[Tensor, "O U"]:
    """1 at the bucket of each offset 1 - length .. length - 1, else 0.

    A product with it has a gradient whose order of addition is fixed.
    """
    with torch.inference_mode(False):
        offsets = torch.arange(1 - length, length)
        chosen = bucket_indices(offsets, buckets, max_distance, left_only=left_only)
        return F.one_hot(chosen, buckets).float().to(device)


def bucket_indices(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int, *, left_only: bool
) -> Int[Tensor, " O"]:
    """One bucket each for near offsets, half of all; those up to `reach` share the others, whose
    borders grow like powers; the last takes all that is farther.

    Of a kernel that looks to both sides, the second half of the buckets is for j > i.
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


class AbsolutePositionBias(ScoreTerm):
    """P[h, i, j], a number for every pair of places (Dufter et al. 2020, section 2.3, A^p)."""

    def __init__(self, heads: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, length, length))
        for head in self.table.detach():
            glorot_normal_(head, length, length)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H S T"]:
        length = p.q.shape[2]
        return self.table[None, :, :length, :length]


class ReversedKernel(Kernel):
    """a[h, i - j + t], a in R^2t, the offset counted from the key (section 2.3, A^r).

    The first of the 2t numbers belongs to no pair of t places and is never read. With `spectral`,
    a is what the authors' code took it for, the spectrum of a circulant matrix: the numbers are
    Re(IDFT(a))[(i - j) mod 2t], in which left and right are the same.
    """

    def __init__(self, heads: int, length: int, *, spectral: bool) -> None:
        super().__init__()
        self.length, self.spectral = length, spectral
        self.numbers = nn.Parameter(torch.empty(heads, 2 * length))
        fan = math.sqrt(2 * length)
        glorot_normal_(self.numbers.detach(), fan, fan)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H 1 R"]:
        if not self.spectral:
            return self.numbers[:, 1:].flip(-1)[None, :, None]  # i - j = 1 - t .. t - 1, turned
        offsets = torch.arange(1 - self.length, self.length, device=self.numbers.device)
        frequencies = torch.arange(2 * self.length, device=self.numbers.device)
        waves = torch.cos(math.pi / self.length * (frequencies[:, None] * offsets).double())
        return (self.numbers @ waves.to(self.numbers.dtype) / (2 * self.length))[None, :, None]
