"""Taps laid out by position ids: a window of each query's row, moved keys' columns put right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class MovedTokens(NamedTuple):
    """Places that do not stand at their own position, as many in each sentence that has some."""

    ordered_prefix: int
    """Sentences at the front that have none."""
    first_position: int
    """The position at which place 0 stands where it is not moved."""
    indices: Int[Tensor, "b N"]
    """Of the other sentences: moved ones, all that stand at `positions`, and more to fill up."""
    positions: Int[Tensor, "b C"]
    """Those that moved places stand at or have left, and more to fill up; each once."""
    indicator: Float[Tensor, "b N C"]
    """1 where such a place stands at such a position, else 0."""

    def covers_all(self, ids: Int[Tensor, "B S"]) -> bool:
        """Whether no place is left to stand at its own position."""
        return self.indices.shape == ids.shape


def find_moved_tokens(
    ids: Int[Tensor, "B S"],
    first_position: int,
    positions: int,
    ordered_prefix: int,
    *,
    every: bool,
) -> MovedTokens:
    """Which ids are not `first`, `first` + 1, ...; with `every` all count as moved.

    How many there are is a question to the device, which a GPU should not be asked.
    """
    others, length = ids[ordered_prefix:], ids.shape[1]
    astray = (others != torch.arange(length, device=ids.device) + first_position) | every
    left = torch.nn.functional.pad(astray, (first_position, positions - first_position - length))
    taken = torch.zeros_like(left, dtype=ids.dtype).scatter_add_(1, others, astray.to(ids.dtype))
    touched = first_true_indices((taken > 0) | left, every=every)
    there = torch.zeros_like(left).scatter_(1, touched, value=True).gather(1, others)
    places = first_true_indices(astray | there, every=every)
    if not every and places.shape[1] == length:  # all of some sentence: then all of each, in order
        return find_moved_tokens(ids, first_position, positions, ordered_prefix, every=True)
    stands = others.gather(1, places)[..., None] == touched[:, None]
    return MovedTokens(ordered_prefix, first_position, places, touched, stands.float())


def first_true_indices(wanted: Bool[Tensor, "b n"], *, every: bool) -> Int[Tensor, "b N"]:
    """Which are wanted, as many in each row: the most of any, filled up by others."""
    most = wanted.shape[1] if every else int(wanted.sum(1).max())
    return wanted.int().argsort(dim=1, descending=True, stable=True)[:, :most]


def scatter_by_position(
    taps: Float[Tensor, "B H S R"], ids: Int[Tensor, "B S"], m: MovedTokens
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, p_j - p_i + r], ids p from 0 to P - 1, r = R // 2 >= P - 1.

    Row i holds what it has for keys in order side by side, from r - p_i on. The columns of moved
    keys are read one by one; what several of them ask of one position is added up by a product, in
    a fixed order.
    """
    laid: Tensor = _ScatterByPosition.apply(taps, ids, m)
    return laid


class _ScatterByPosition(torch.autograd.Function):
    @staticmethod
    def forward(ctx, taps, ids, m):  # type: ignore[no-untyped-def]
        taps, around, length = pack_rows(taps), taps.shape[-1] // 2, ids.shape[1]
        ctx.ids, ctx.moved_tokens, ctx.layout = ids, m, (taps.shape, taps.stride())
        others = ids[m.ordered_prefix :]
        offsets = others.gather(1, m.indices)[:, None] - others[..., None]  # (b, S, N)
        index = (offsets + around)[:, None].expand(-1, taps.shape[1], -1, -1)
        columns = taps[m.ordered_prefix :].gather(-1, index)
        if m.covers_all(ids):
            return columns
        laid = gather_windows(taps, around - ids + m.first_position, length)
        for sentence, places, column in zip(
            laid[m.ordered_prefix :], m.indices, columns, strict=True
        ):
            sentence.index_copy_(-1, places, column)
        return laid

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        m, taps = ctx.moved_tokens, gradient.new_empty_strided(*ctx.layout).zero_()
        by_position = unskew(taps, m.first_position)
        others = by_position[m.ordered_prefix :]
        if not m.covers_all(ctx.ids):
            by_position.narrow(-1, m.first_position, gradient.shape[-1]).copy_(gradient)
        index = m.indices[:, None, None].expand(-1, *gradient.shape[1:3], -1)
        columns = gradient[m.ordered_prefix :].gather(-1, index).flatten(1, 2)
        added = (columns @ m.indicator.to(gradient.dtype)).unflatten(1, gradient.shape[1:3])
        for sentence, at, column in zip(others, m.positions, added, strict=True):
            sentence.index_copy_(-1, at, column)
        if m.indices.numel():
            reindex_rows(taps[m.ordered_prefix :], others, ctx.ids[m.ordered_prefix :], m.indices)
        return taps, None, None


def unskew(taps: Float[Tensor, "B H S R"], first: int) -> Float[Tensor, "B H S P"]:
    """A view of the taps by position, of rows that stand at `first`, `first` + 1, ..."""
    around = taps.shape[-1] // 2
    strides, start = (*taps.stride()[:2], 2 * around, 1), taps.storage_offset() + around - first
    return taps.as_strided((*taps.shape[:-1], around + 1), strides, start)


def reindex_rows(
    taps: Float[Tensor, "b H S R"],
    by_position: Float[Tensor, "b H S P"],
    ids: Int[Tensor, "b S"],
    places: Int[Tensor, "b N"],
) -> None:
    """Rearrange the rows of moved tokens, each for its position."""
    around, positions = taps.shape[-1] // 2, by_position.shape[-1]
    index = places[:, None, :, None].expand(-1, taps.shape[1], -1, positions)
    among_zeros = torch.nn.functional.pad(by_position.gather(2, index), (around, around))
    turned = gather_windows(among_zeros, ids.gather(1, places), taps.shape[-1])
    for sentence, at, row in zip(taps, places, turned, strict=True):
        sentence.index_copy_(1, at, row)


def pack_rows(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S R"]:
    """The same, the rows of a head one after the other; heads and sentences lie as they do."""
    apart = taps.stride()[-2:] != (taps.shape[-1], 1) or 0 in taps.stride()
    return taps.contiguous() if apart else taps


def gather_windows(
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
