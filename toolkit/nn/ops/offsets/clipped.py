"""Reading of taps by clipped offset, and its transpose: sums of scores by clipped offset.

Both directions are products with one-hot matrices where gradients are summed, in a fixed order.

B batch   S queries   T keys   H heads   R kernel taps, 2 * radius + 1
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

GPU_ONE_HOT = 1 << 28
"""Numbers of the one-hot matrices that a GPU makes together."""


def one_hot(
    taps: Int[Tensor, "*B S T"], radius: int, dtype: torch.dtype
) -> Float[Tensor, "*B S T R"]:
    """1 where a pair of positions reads tap r, else 0."""
    return (taps[..., None] == torch.arange(2 * radius + 1, device=taps.device)).to(dtype)


def read_taps(
    taps: Float[Tensor, "#B H S R"], index: Int[Tensor, "#B S T"], *, shared: bool
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, index[b, i, j]]; `shared`: of plain positions."""
    scores: Tensor = _Taps.apply(taps, index, None, shared)
    return scores


def sum_taps(
    scores: Float[Tensor, "B H S T"], index: Int[Tensor, "#B S T"], taps: int, *, shared: bool
) -> Float[Tensor, "B H S R"]:
    """out[b, h, i, r] = sum of scores[b, h, i, j] over the j with index[b, i, j] = r."""
    sums: Tensor = _Taps.apply(scores, index, taps, shared)
    return sums


def gather_scores(
    taps: Float[Tensor, "#B H S R"], index: Int[Tensor, "#B S T"], *, shared: bool
) -> Float[Tensor, "B H S T"]:
    """`read_taps` without a gradient."""
    if shared:
        table = one_hot(index[0], taps.shape[-1] // 2, taps.dtype)
        by_query = taps.flatten(0, 1).transpose(0, 1)  # (B, H, S, R) -> (S, BH, R)
        scores = (by_query @ table.mT).transpose(0, 1)  # (S, BH, R) @ (S, R, T) -> (BH, S, T)
        return scores.unflatten(0, taps.shape[:2])
    batch = max(len(taps), len(index))
    by_head = index.unsqueeze(1).expand(batch, taps.shape[1], -1, -1)
    return taps.expand(batch, -1, -1, -1).gather(-1, by_head)  # (B, H, S, R) -> (B, H, S, T)


def sum_scores(
    scores: Float[Tensor, "B H S T"], index: Int[Tensor, "#B S T"], radius: int, *, shared: bool
) -> Float[Tensor, "B H S R"]:
    """`sum_taps` without a gradient."""
    if shared:
        table = one_hot(index[0], radius, scores.dtype)
        by_query = scores.flatten(0, 1).transpose(0, 1)  # (B, H, S, T) -> (S, BH, T)
        sums = (by_query @ table).transpose(0, 1)  # (S, BH, T) @ (S, T, R) -> (BH, S, R)
        return sums.unflatten(0, scores.shape[:2])
    index = index.expand(len(scores), -1, -1)
    at_once = sentences_at_once(index, 2 * radius + 1)
    parts = zip(scores.split(at_once), index.split(at_once), strict=True)
    return torch.cat(
        [  # (b, S, H, T) @ (b, S, T, R) -> (b, H, S, R)
            (s.transpose(1, 2) @ one_hot(i, radius, s.dtype)).transpose(1, 2) for s, i in parts
        ]
    )


class _Taps(torch.autograd.Function):
    """`sum_scores`, or `gather_scores` without a number of taps: each has the other as gradient."""

    @staticmethod
    def forward(ctx, x, index, taps, shared):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(index)
        ctx.shared = shared
        ctx.taps = None if taps else x.shape[-1]
        if taps:
            return sum_scores(x, index, taps // 2, shared=shared)
        return gather_scores(x, index, shared=shared)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (index,) = ctx.saved_tensors
        if ctx.taps:
            return sum_scores(gradient, index, ctx.taps // 2, shared=ctx.shared), None, None, None
        return gather_scores(gradient, index, shared=ctx.shared), None, None, None


def sentences_at_once(index: Int[Tensor, "B S T"], taps: int) -> int:
    """Sentences whose one-hot matrices are made together: on a CPU one, which its cache holds."""
    if index.device.type == "cpu":
        return 1
    return max(1, GPU_ONE_HOT // (index[0].numel() * taps))
