"""Taps laid out by position ids: a window of each query's row, then the keys' columns of it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def laid_by_ids(
    taps: Float[Tensor, "B H S R"],
    ids: Int[Tensor, "B S"],
    columns: Float[Tensor, "B P T"],
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, p_j - p_i + r], ids p from 0 to P - 1, r = R // 2 >= P - 1.

    Row i holds what it has for keys at positions 0 .. P - 1 side by side, from r - p_i on. Which of
    these stands at place j, the one-hot `columns` say: a product that copies, whose backward pass
    adds up what several keys at one position ask for, in a fixed order.
    """
    by_position: Tensor = _Windows.apply(taps, ids, columns.shape[1])
    return (by_position.flatten(1, 2) @ columns).unflatten(1, taps.shape[1:3])


class _Windows(torch.autograd.Function):
    """out[b, h, i, p] = taps[b, h, i, r - ids[b, i] + p], p = 0 .. P - 1, by copies of rows."""

    @staticmethod
    def forward(ctx, taps, ids, positions):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(ids)
        ctx.taps = taps.shape[-1]
        taps = taps.contiguous()
        return windows(taps, taps.shape[-1] // 2 - ids, positions)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (ids,) = ctx.saved_tensors
        around, positions = ctx.taps // 2, gradient.shape[-1]
        padded = F.pad(gradient, (around, ctx.taps - positions))
        return windows(padded, ids, ctx.taps), None, None


def windows(
    rows: Float[Tensor, "B H S W"], starts: Int[Tensor, "B S"], width: int
) -> Float[Tensor, "B H S w"]:
    """rows[b, h, i, starts[b, i] : starts[b, i] + width], rows contiguous."""
    flat = rows.flatten()
    every = flat.as_strided((flat.numel() - width + 1, width), (1, 1))
    begins = torch.arange(rows.shape[:3].numel(), device=rows.device).view(rows.shape[:3])
    begins = begins * rows.shape[-1] + starts[:, None]
    return every.index_select(0, begins.flatten()).view(*rows.shape[:3], width)
