"""Taps laid out by position ids: a window of each query's row, moved keys' columns put right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class Moved(NamedTuple):
    """Places that do not stand at their own position: a few of each sentence, as many in all."""

    places: Int[Tensor, "B N"]
    positions: Float[Tensor, "B P N"]
    """1 where such a place stands at position p, else 0."""
    asked: Float[Tensor, "B N P"]
    """The same, without the places that only fill a sentence up to N: these were not moved."""
    in_order: Float[Tensor, "B S"]
    """1 where a place was not moved, else 0."""
    first: int
    """The position at which place 0 would stand if it were not moved."""


def moved(ids: Int[Tensor, "B S"], first: int, positions: int, *, every: bool) -> Moved:
    """Which ids are not `first`, `first` + 1, ...; with `every` all count as moved.

    How many there are is a question to the device, which a GPU should not be asked.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    astray = (ids != places + first) | every
    n = len(places) if every else int(astray.sum(1).max())
    chosen = astray.int().argsort(dim=1, descending=True, stable=True)[:, :n]
    every_position = torch.arange(positions, device=ids.device)[:, None]
    stand = (ids.gather(1, chosen)[:, None] == every_position).float()
    asked = (stand * astray.gather(1, chosen)[:, None]).mT
    return Moved(chosen, stand, asked, (~astray).float(), first)


def laid_by_ids(
    taps: Float[Tensor, "B H S R"], ids: Int[Tensor, "B S"], m: Moved
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, p_j - p_i + r], ids p from 0 to P - 1, r = R // 2 >= P - 1.

    Row i holds what it has for keys at positions 0 .. P - 1 side by side, from r - p_i on. Most
    keys stand there in order; the columns of the others are copied by a product with one-hot
    columns, whose backward pass adds up what several keys at one position ask for, in a fixed
    order.
    """
    laid: Tensor = _Laid.apply(taps, ids, m)
    return laid


class _Laid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, taps, ids, m):  # type: ignore[no-untyped-def]
        ctx.ids, ctx.moved, ctx.taps = ids, m, taps.shape[-1]
        positions, length, heads = m.positions.shape[1], ids.shape[1], taps.shape[1:3]
        starts = taps.shape[-1] // 2 - ids
        by_position = windows(taps.flatten(), taps.shape[-1], taps.shape[:3], starts, positions)
        columns = (by_position.flatten(1, 2) @ m.positions.to(taps.dtype)).unflatten(1, heads)
        if m.places.shape[1] == length:
            return columns
        laid = by_position.narrow(-1, m.first, length)
        for sentence, places, column in zip(laid, m.places, columns, strict=True):
            sentence.index_copy_(-1, places, column)
        return laid

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        m, around, positions = ctx.moved, ctx.taps // 2, ctx.moved.positions.shape[1]
        places, length = gradient.shape[:3], gradient.shape[-1]
        flat, by_position = apart(gradient, positions, around)
        columns = gradient.gather(-1, m.places[:, None, None].expand(*places, -1))
        asked = (columns.flatten(1, 2) @ m.asked.to(gradient.dtype)).unflatten(1, places[1:])
        in_order = m.in_order[:, None, None].to(gradient.dtype)
        torch.mul(gradient, in_order, out=by_position.narrow(-1, m.first, length))
        by_position += asked
        return windows(flat, around + positions, places, ctx.ids, ctx.taps), None, None


def apart(
    like: Float[Tensor, "B H S T"], width: int, around: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, "B H S w"]]:
    """Rows of zeros in memory, `around` further ones before each and after the last; the rows."""
    rows = like.shape[:3].numel()
    flat = like.new_zeros(rows * (around + width) + around)
    strided = flat[around:].as_strided((rows, width), (around + width, 1), around)
    return flat, strided.unflatten(0, like.shape[:3])


def windows(
    flat: Float[Tensor, " n"], pitch: int, rows: torch.Size, starts: Int[Tensor, "B S"], width: int
) -> Float[Tensor, "B H S w"]:
    """flat[start of row (b, h, i) + starts[b, i] ...][:width], rows begin `pitch` apart."""
    every = flat.as_strided((flat.numel() - width + 1, width), (1, 1))
    begins = torch.arange(rows.numel(), device=flat.device).view(rows) * pitch
    return every.index_select(0, (begins + starts[:, None]).flatten()).view(*rows, width)
