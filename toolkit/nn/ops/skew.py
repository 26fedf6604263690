"""Taps laid out by position ids: a window of each query's row, moved keys' columns put right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class Moved(NamedTuple):
    """Places that do not stand at their own position, as many in each sentence that has some."""

    plain: int
    """Sentences at the front that have none."""
    first: int
    """The position at which place 0 stands where it is not moved."""
    places: Int[Tensor, "b N"]
    """Of the other sentences: moved ones, all that stand at `positions`, and more to fill up."""
    positions: Int[Tensor, "b C"]
    """Those that moved places stand at or have left, and more to fill up; each once."""
    stands: Float[Tensor, "b N C"]
    """1 where such a place stands at such a position, else 0."""

    def all_of(self, ids: Int[Tensor, "B S"]) -> bool:
        """Whether no place is left to stand at its own position."""
        return self.places.shape == ids.shape


def moved(ids: Int[Tensor, "B S"], first: int, positions: int, plain: int, *, every: bool) -> Moved:
    """Which ids are not `first`, `first` + 1, ...; with `every` all count as moved.

    How many there are is a question to the device, which a GPU should not be asked.
    """
    others, length = ids[plain:], ids.shape[1]
    astray = (others != torch.arange(length, device=ids.device) + first) | every
    left = torch.nn.functional.pad(astray, (first, positions - first - length))
    taken = torch.zeros_like(left, dtype=ids.dtype).scatter_add_(1, others, astray.to(ids.dtype))
    touched = first_of((taken > 0) | left, every=every)
    there = torch.zeros_like(left).scatter_(1, touched, value=True).gather(1, others)
    places = first_of(astray | there, every=every)
    if not every and places.shape[1] == length:  # all of some sentence: then all of each, in order
        return moved(ids, first, positions, plain, every=True)
    stands = others.gather(1, places)[..., None] == touched[:, None]
    return Moved(plain, first, places, touched, stands.float())


def first_of(wanted: Bool[Tensor, "b n"], *, every: bool) -> Int[Tensor, "b N"]:
    """Which are wanted, as many in each row: the most of any, filled up by others."""
    most = wanted.shape[1] if every else int(wanted.sum(1).max())
    return wanted.int().argsort(dim=1, descending=True, stable=True)[:, :most]


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
        taps, around, length = side_by_side(taps), taps.shape[-1] // 2, ids.shape[1]
        ctx.ids, ctx.moved, ctx.layout = ids, m, (taps.shape, taps.stride())
        others = ids[m.plain :]
        offsets = others.gather(1, m.places)[:, None] - others[..., None]  # (b, S, N)
        index = (offsets + around)[:, None].expand(-1, taps.shape[1], -1, -1)
        columns = taps[m.plain :].gather(-1, index)
        if m.all_of(ids):
            return columns
        laid = windows(taps, around - ids + m.first, length)
        for sentence, places, column in zip(laid[m.plain :], m.places, columns, strict=True):
            sentence.index_copy_(-1, places, column)
        return laid

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        m, taps = ctx.moved, gradient.new_empty_strided(*ctx.layout).zero_()
        by_position = unskewed(taps, m.first)
        others = by_position[m.plain :]
        if not m.all_of(ctx.ids):
            by_position.narrow(-1, m.first, gradient.shape[-1]).copy_(gradient)
        index = m.places[:, None, None].expand(-1, *gradient.shape[1:3], -1)
        columns = gradient[m.plain :].gather(-1, index).flatten(1, 2)
        added = (columns @ m.stands.to(gradient.dtype)).unflatten(1, gradient.shape[1:3])
        for sentence, at, column in zip(others, m.positions, added, strict=True):
            sentence.index_copy_(-1, at, column)
        if m.places.numel():
            turn_rows(taps[m.plain :], others, ctx.ids[m.plain :], m.places)
        return taps, None, None


def unskewed(taps: Float[Tensor, "B H S R"], first: int) -> Float[Tensor, "B H S P"]:
    """A view of the taps by position, of rows that stand at `first`, `first` + 1, ..."""
    around = taps.shape[-1] // 2
    strides, start = (*taps.stride()[:2], 2 * around, 1), taps.storage_offset() + around - first
    return taps.as_strided((*taps.shape[:-1], around + 1), strides, start)


def turn_rows(
    taps: Float[Tensor, "b H S R"],
    by_position: Float[Tensor, "b H S P"],
    ids: Int[Tensor, "b S"],
    places: Int[Tensor, "b N"],
) -> None:
    """Lay the rows of moved places anew, each for the position at which it stands."""
    around, positions = taps.shape[-1] // 2, by_position.shape[-1]
    index = places[:, None, :, None].expand(-1, taps.shape[1], -1, positions)
    among_zeros = torch.nn.functional.pad(by_position.gather(2, index), (around, around))
    turned = windows(among_zeros, ids.gather(1, places), taps.shape[-1])
    for sentence, at, row in zip(taps, places, turned, strict=True):
        sentence.index_copy_(1, at, row)


def side_by_side(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S R"]:
    """The same, the rows of a head one after the other; heads and sentences lie as they do."""
    apart = taps.stride()[-2:] != (taps.shape[-1], 1) or 0 in taps.stride()
    return taps.contiguous() if apart else taps


def windows(
    rows: Float[Tensor, "B H S n"], starts: Int[Tensor, "B S"], width: int
) -> Float[Tensor, "B H S w"]:
    """rows[b, h, i, starts[b, i] :][:width]."""
    strides, device = rows.stride(), rows.device
    last = sum((n - 1) * stride for n, stride in zip(rows.shape, strides, strict=True))
    every = rows.as_strided((last + 2 - width, width), (1, 1))
    begins = starts[:, None]
    for axis, stride in enumerate(strides[:3]):
        shape = [-1 if axis == a else 1 for a in range(3)]
        begins = begins + stride * torch.arange(rows.shape[axis], device=device).view(shape)
    return every.index_select(0, begins.flatten()).view(*rows.shape[:3], width)
