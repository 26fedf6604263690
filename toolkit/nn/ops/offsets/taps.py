"""Reading of taps by clipped offset, and its transpose: sums of scores by clipped offset.

B batch   S queries   T keys   H heads   R kernel taps, 2 * radius + 1

At positions 0 .. S-1 scores are diagonals of the taps; with position ids taps are gathered, and
summed in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

GPU_ONE_HOT = 1 << 28
"""Numbers of the one-hot matrices that a GPU makes together."""

LinearMap = Callable[[Tensor], Tensor]


def apply_linear(x: Tensor, function: LinearMap, transpose: LinearMap) -> Tensor:
    """function(x) of a linear function, whose gradient is its transpose."""
    return _Linear.apply(x, function, transpose)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, function, transpose):  # type: ignore[no-untyped-def]
        ctx.transpose = transpose
        return function(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return ctx.transpose(gradient), None, None


def read_diagonals(taps: Float[Tensor, "B H S R"], length: int) -> Float[Tensor, "B H S S"]:
    """out[b, h, i, j] = taps[b, h, i, clip(j - i, -radius, radius) + radius], for radius < S."""
    outer = length - 1 - taps.shape[-1] // 2
    first, last = (taps[..., tap, None].expand(-1, -1, -1, outer) for tap in (0, -1))
    return skew(torch.cat([first, taps, last], -1))


def sum_diagonals(scores: Float[Tensor, "B H S S"], radius: int) -> Float[Tensor, "B H S R"]:
    """out[b, h, i, r] = sum of scores[b, h, i, j] over the j whose clipped offset is r - radius."""
    outer = scores.shape[-1] - 1 - radius
    taps = scores.new_zeros(*scores.shape[:3], 2 * scores.shape[-1] - 1)
    skew(taps).copy_(scores)
    first, inner, last = taps.split([outer + 1, 2 * radius - 1, outer + 1], -1)
    return torch.cat([first.sum(-1, keepdim=True), inner, last.sum(-1, keepdim=True)], -1)


def skew(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S S"]:
    """A view of the taps, out[.., i, j] = taps[.., i, j - i + r], for r = (R - 1) // 2 >= S - 1: in
    each next row the same offset is one column further left (Huang et al. 2019, section 3.4.1).
    """
    length, count = taps.shape[-2:]
    if length == 1:
        return taps.narrow(-1, count // 2, 1)
    if torch.compiler.is_compiling():
        return skew_by_views(taps)
    if taps.stride()[-2:] != (count, 1):
        taps = taps.contiguous()
    strides = (*taps.stride()[:-2], count - 1, 1)
    start = taps.storage_offset() + (count - 1) // 2
    return taps.as_strided((*taps.shape[:-1], length), strides, start)


def skew_by_views(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S S"]:
    """`skew` as a chain of views, since compilers do not follow `as_strided`; slower outside of
    them.
    """
    length, count = taps.shape[-2:]
    start = (count - 1) // 2
    flat = taps.flatten(-2)[..., start : start + length * (count - 1)]
    return flat.unflatten(-1, (length, count - 1))[..., :length]


def gather_scores(
    taps: Float[Tensor, "#B H S R"], index: Int[Tensor, "#B S T"]
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, index[b, i, j]]."""
    if len(index) > 1:
        taps = taps.expand(len(index), -1, -1, -1)
    by_head = index.unsqueeze(1).expand(*taps.shape[:2], -1, -1)
    return taps.gather(-1, by_head)  # (B, H, S, R) -> (B, H, S, T)


def sum_scores(
    scores: Float[Tensor, "B H S T"], index: Int[Tensor, "#B S T"], radius: int
) -> Float[Tensor, "B H S R"]:
    """out[b, h, i, r] = sum of scores[b, h, i, j] over the j with index[b, i, j] = r.

    A GPU would add them in any order; there they are a product with a one-hot matrix.
    """
    index, count = index.expand(len(scores), -1, -1), 2 * radius + 1
    if scores.device.type == "cpu":
        precise = scores.to(torch.promote_types(scores.dtype, torch.float32))
        sums = precise.new_zeros(*scores.shape[:3], count)
        return sums.scatter_add_(-1, index.unsqueeze(1).expand_as(scores), precise).to(scores.dtype)
    return sum_by_products(scores, index, radius, GPU_ONE_HOT // (index[0].numel() * count))


def sum_by_products(
    scores: Float[Tensor, "B H S T"], index: Int[Tensor, "B S T"], radius: int, at_once: int
) -> Float[Tensor, "B H S R"]:
    """`sum_scores` by products with the one-hot matrices of some sentences at a time."""
    taps = torch.arange(2 * radius + 1, device=index.device)
    pairs = (it.split(max(1, at_once)) for it in (scores, index))
    return torch.cat(
        [  # (b, S, H, T) @ (b, S, T, R) -> (b, H, S, R)
            (s.transpose(1, 2) @ (i[..., None] == taps).to(s.dtype)).transpose(1, 2)
            for s, i in zip(*pairs, strict=True)
        ]
    )
