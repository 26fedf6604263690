"""Taps laid out by position ids: a window of each query's row, moved keys' columns put right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class Moved(NamedTuple):
    """Places that do not stand at their own position, as many in each sentence that has some."""

    plain: int
    """Sentences at the front that have none."""
    first: int
    """The position at which place 0 stands where it is not moved."""
    in_order: Float[Tensor, "B S"]
    """1 where a place is not moved, else 0."""
    places: Int[Tensor, "b N"]
    """Of the other sentences; some only fill up and do stand at their own position."""
    asked: Float[Tensor, "b N P"]
    """1 where a moved place stands at position p, else 0; 0 too for those that fill up."""


def moved(ids: Int[Tensor, "B S"], first: int, positions: int, plain: int, *, every: bool) -> Moved:
    """Which ids are not `first`, `first` + 1, ...; with `every` all count as moved.

    How many there are is a question to the device, which a GPU should not be asked.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    astray = (ids != places + first) | every
    n = len(places) if every else int(astray.sum(1).max())
    chosen = astray[plain:].int().argsort(dim=1, descending=True, stable=True)[:, :n]
    stands = ids[plain:].gather(1, chosen)[..., None] == torch.arange(positions, device=ids.device)
    asked = stands & astray[plain:].gather(1, chosen)[..., None]
    return Moved(plain, first, (~astray).float(), chosen, asked.float())


def laid_by_ids(
    taps: Float[Tensor, "B H S R"], ids: Int[Tensor, "B S"], m: Moved
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, p_j - p_i + r], ids p from 0 to P - 1, r = R // 2 >= P - 1.

    Row i holds what it has for keys in order side by side, from r - p_i on. The columns of moved
    keys are read one by one; what several of them ask of one position is added up by a product, in
    a fixed order.
    """
    laid: Tensor = _Laid.apply(taps, ids, m)
    return laid


class _Laid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, taps, ids, m):  # type: ignore[no-untyped-def]
        ctx.ids, ctx.moved, ctx.taps = ids, m, taps.shape[-1]
        taps, around, length = taps.contiguous(), taps.shape[-1] // 2, ids.shape[1]
        others = ids[m.plain :]
        offsets = others.gather(1, m.places)[:, None] - others[..., None]  # (b, S, N)
        index = (offsets + around)[:, None].expand(-1, taps.shape[1], -1, -1)
        columns = taps[m.plain :].gather(-1, index)
        if m.places.shape[1] == length:
            return columns
        laid = windows(taps.flatten(), ctx.taps, taps.shape[:3], around - ids + m.first, length)
        for sentence, places, column in zip(laid[m.plain :], m.places, columns, strict=True):
            sentence.index_copy_(-1, places, column)
        return laid

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        m, around, positions = ctx.moved, ctx.taps // 2, ctx.moved.asked.shape[2]
        rows = gradient.shape[:3]
        flat, by_position = apart(gradient, positions, around)
        in_order = m.in_order[:, None, None].to(gradient.dtype)
        at_home = by_position.narrow(-1, m.first, gradient.shape[-1])
        torch.mul(gradient, in_order, out=at_home)
        index = m.places[:, None, None].expand(-1, *rows[1:], -1)
        columns = gradient[m.plain :].gather(-1, index).flatten(1, 2)
        by_position[m.plain :] += (columns @ m.asked.to(gradient.dtype)).unflatten(1, rows[1:])
        return windows(flat, around + positions, rows, ctx.ids, ctx.taps), None, None


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
