"""Taps by clipped offset and scores of positions 0 .. S-1, by bit masks and diagonals, on CPUs.

All pairs at the radius or beyond read the first or the last tap, which bit masks select several
times faster than products or indices; each of the other taps is on a diagonal.

B batch   S positions, of queries and keys   H heads   R kernel taps, 2 * radius + 1
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.nn.ops.dropout import INTEGER_DTYPES, apply_keep_mask


class Outermost(NamedTuple):
    """All bits of the pairs that read the first and the last tap, none of other pairs."""

    first: Int[Tensor, "*b S T"]
    last: Int[Tensor, "*b S T"]


def mask_outermost(offsets: Int[Tensor, "*b S T"], radius: int, dtype: torch.dtype) -> Outermost:
    """Masks of the size of `dtype` for offsets j - i."""
    integer = INTEGER_DTYPES[dtype]
    first, last = offsets <= -radius, offsets >= radius
    return Outermost(first.to(integer).neg_(), last.to(integer).neg_())


@lru_cache(maxsize=8)
def cached_outermost(length: int, radius: int, dtype: torch.dtype) -> Outermost:
    """The masks of positions 0 .. length-1."""
    with torch.inference_mode(False):
        positions = torch.arange(length)
        return mask_outermost(positions - positions[:, None], radius, dtype)


def read_diagonals(taps: Float[Tensor, "B H S R"], out: Float[Tensor, "B H S S"]) -> None:
    """out[b, h, i, j] = taps[b, h, i, clip(j - i, -radius, radius) + radius]."""
    radius, length = taps.shape[-1] // 2, out.shape[-1]
    integer = INTEGER_DTYPES[out.dtype]
    first, last = (taps[..., tap, None].contiguous().view(integer) for tap in (0, -1))
    mask = cached_outermost(length, radius, out.dtype).first
    torch.bitwise_and(first ^ last, mask, out=out.view(integer)).bitwise_xor_(last)
    for of_out, of_taps in pair_diagonals(out, taps):
        of_out.copy_(of_taps)


def sum_diagonals(scores: Float[Tensor, "B H S S"], out: Float[Tensor, "B H S R"]) -> None:
    """out[b, h, i, r] = sum of scores[b, h, i, j] over the j whose clipped offset is r - radius."""
    sum_outermost(scores, cached_outermost(scores.shape[-1], out.shape[-1] // 2, out.dtype), out)
    out[..., 1:-1] = 0
    for of_scores, of_out in pair_diagonals(scores, out):
        of_out.copy_(of_scores)


def sum_outermost(
    scores: Float[Tensor, "B H S T"], masks: Outermost, out: Float[Tensor, "B H S R"]
) -> None:
    """The sums of the first and the last tap."""
    out[..., 0] = apply_keep_mask(scores, masks.first).sum(-1)
    out[..., -1] = apply_keep_mask(scores, masks.last).sum(-1)


def pair_diagonals(
    scores: Float[Tensor, "B H S S"], taps: Float[Tensor, "B H S R"]
) -> Iterator[tuple[Float[Tensor, "B H n"], Float[Tensor, "B H n"]]]:
    """Scores and taps of each offset within the radius, as views."""
    length, radius = scores.shape[-1], taps.shape[-1] // 2
    reach = min(radius, length) - 1
    for offset in range(-reach, reach + 1):
        rows = slice(max(0, -offset), length - max(0, offset))
        yield scores.diagonal(offset, -2, -1), taps[:, :, rows, radius + offset]
