"""Scores from taps by position ids: windows of rows, with the columns of moved tokens corrected.

B batch, whose last b sentences are not in order   S tokens   P positions   H heads
N moved tokens of a sentence   R taps   n columns of a window
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.dispatch import apply_eagerly


class MovedTokens(NamedTuple):
    """Tokens whose position id differs from their index, the same number in every sentence."""

    ordered_prefix: int
    """Number of sentences at the start of the batch without moved tokens."""
    first_position: int
    """Position id of token 0 in a sentence in order."""
    indices: Int[Tensor, "b N"]
    """In the other sentences: moved tokens, all tokens at `positions`, and others as filling."""
    positions: Int[Tensor, "b C"]
    """Positions that moved tokens have or have left, and others as filling; each once."""
    indicator: Float[Tensor, "b N C"]
    """1 if a token of `indices` has a position of `positions`, else 0."""

    def covers_all(self, ids: Int[Tensor, "B S"]) -> bool:
        """Whether all tokens count as moved."""
        return self.indices.shape == ids.shape


def find_moved_tokens(
    ids: Int[Tensor, "B S"],
    first_position: int,
    positions: int,
    ordered_prefix: int,
    *,
    every: bool,
) -> MovedTokens:
    """Tokens whose ids are not `first_position`, `first_position` + 1, ...; all if `every`.

    Without `every` their number is read from the device, which would synchronize a GPU.
    """
    others, length = ids[ordered_prefix:], ids.shape[1]
    moved = (others != torch.arange(length, device=ids.device) + first_position) | every
    left = torch.nn.functional.pad(moved, (first_position, positions - first_position - length))
    taken = torch.zeros_like(left, dtype=ids.dtype).scatter_add_(1, others, moved.to(ids.dtype))
    affected = first_true_indices((taken > 0) | left, every=every)
    at_affected = torch.zeros_like(left).scatter_(1, affected, value=True).gather(1, others)
    indices = first_true_indices(moved | at_affected, every=every)
    if not every and indices.shape[1] == length:  # all of one sentence: then all of each, in order
        return find_moved_tokens(ids, first_position, positions, ordered_prefix, every=True)
    indicator = others.gather(1, indices)[..., None] == affected[:, None]
    return MovedTokens(ordered_prefix, first_position, indices, affected, indicator.float())


def first_true_indices(mask: Bool[Tensor, "b n"], *, every: bool) -> Int[Tensor, "b N"]:
    """Indices of the true values of each row, then of others up to the largest count of a row."""
    count = mask.shape[1] if every else int(mask.sum(1).max())
    return mask.int().argsort(dim=1, descending=True, stable=True)[:, :count]


def scatter_by_position(
    taps: Float[Tensor, "B H S R"], ids: Int[Tensor, "B S"], m: MovedTokens
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, p_j - p_i + r], ids p from 0 to P - 1,
    r = (R - 1) // 2 >= P - 1.

    The scores of keys in order are a window of row i that starts at r - p_i; those of moved keys
    are gathered. Gradients of keys at the same position are added by a product, in a fixed order.
    """
    if taps.device.type == "cpu":  # Inductor simplifies its indices for a CPU without end
        return apply_eagerly(_ScatterByPosition, taps, ids, m)
    return _ScatterByPosition.apply(taps, ids, m)


class _ScatterByPosition(torch.autograd.Function):
    @staticmethod
    def forward(ctx, taps, ids, m):  # type: ignore[no-untyped-def]
        taps, radius, length = pack_rows(taps), (taps.shape[-1] - 1) // 2, ids.shape[1]
        ctx.ids, ctx.moved_tokens = ids, m
        ctx.layout = taps.shape, taps.stride(1) > taps.stride(0)
        others = ids[m.ordered_prefix :]
        offsets = others.gather(1, m.indices)[:, None] - others[..., None]  # (b, S, N)
        index = (offsets + radius)[:, None].expand(-1, taps.shape[1], -1, -1)
        columns = taps[m.ordered_prefix :].gather(-1, index)
        if m.covers_all(ids):
            return columns
        scores = gather_windows(taps, radius - ids + m.first_position, length)
        copy_by_index(scores[m.ordered_prefix :], -1, m.indices, columns)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        m, (shape, heads_outermost) = ctx.moved_tokens, ctx.layout
        grad_taps, by_position = skewed_zeros(gradient, shape, heads_outermost, m.first_position)
        others = by_position[m.ordered_prefix :]
        if not m.covers_all(ctx.ids):
            by_position.narrow(-1, m.first_position, gradient.shape[-1]).copy_(gradient)
        index = m.indices[:, None, None].expand(-1, *gradient.shape[1:3], -1)
        columns = gradient[m.ordered_prefix :].gather(-1, index).flatten(1, 2)
        sums = (columns @ m.indicator.to(gradient.dtype)).unflatten(1, gradient.shape[1:3])
        copy_by_index(others, -1, m.positions, sums)
        if m.indices.numel():
            ids = ctx.ids[m.ordered_prefix :]
            reindex_rows(grad_taps[m.ordered_prefix :], others, ids, m.indices)
        return grad_taps, None, None


def copy_by_index(out: Tensor, axis: int, indices: Int[Tensor, "b N"], values: Tensor) -> None:
    """Copy each sentence's values to its indices, each once, along an axis of a sentence."""
    if out.device.type != "cpu":
        scatter_by_index(out, axis, indices, values)
        return
    for sentence, index, value in zip(out, indices, values, strict=True):
        sentence.index_copy_(axis, index, value)


def scatter_by_index(out: Tensor, axis: int, indices: Int[Tensor, "b N"], values: Tensor) -> None:
    """`copy_by_index` in one operation, for GPUs."""
    shape = [len(indices), 1, 1, 1]
    shape[axis % (out.dim() - 1) + 1] = -1
    out.scatter_(axis % (out.dim() - 1) + 1, indices.view(shape).expand_as(values), values)


def skewed_zeros(
    like: Tensor, shape: Sequence[int], heads_outermost: bool, first: int
) -> tuple[Float[Tensor, "B H S R"], Float[Tensor, "B H S P"]]:
    """Taps of 0, and a view of them by position for rows at positions `first`, `first` + 1, ...: a
    chain of views, since compilers do not follow writes through `as_strided`.
    """
    batch, heads, length, count = shape
    radius, used = (count - 1) // 2, length * count
    start, windows = radius - first, length * (count - 1)
    outer = (heads, batch) if heads_outermost else (batch, heads)
    zeros = like.new_zeros(*outer, max(used, start + windows))
    flat = zeros.transpose(0, 1) if heads_outermost else zeros
    by_position = flat[..., start : start + windows].unflatten(-1, (length, count - 1))
    return flat[..., :used].unflatten(-1, (length, count)), by_position[..., : radius + 1]


def reindex_rows(
    taps: Float[Tensor, "b H S R"],
    by_position: Float[Tensor, "b H S P"],
    ids: Int[Tensor, "b S"],
    indices: Int[Tensor, "b N"],
) -> None:
    """Write the rows of moved tokens to `taps`, shifted to their positions."""
    count, positions = taps.shape[-1], by_position.shape[-1]
    radius = (count - 1) // 2
    index = indices[:, None, :, None].expand(-1, taps.shape[1], -1, positions)
    padded = torch.nn.functional.pad(by_position.gather(2, index), (radius, count - 1 - radius))
    rows = gather_windows(padded, ids.gather(1, indices), count)
    copy_by_index(taps, 1, indices, rows)


def pack_rows(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S R"]:
    """Taps with contiguous rows within each head; any strides of heads and sentences stay."""
    scattered = taps.stride()[-2:] != (taps.shape[-1], 1) or 0 in taps.stride()
    return taps.contiguous() if scattered else taps


def gather_windows(
    rows: Float[Tensor, "B H S n"], starts: Int[Tensor, "B S"], width: int
) -> Float[Tensor, "B H S w"]:
    """rows[b, h, i, starts[b, i] :][:width]."""
    strides, device = rows.stride(), rows.device
    last = sum((n - 1) * stride for n, stride in zip(rows.shape, strides, strict=True))
    windows = rows.as_strided((last + 2 - width, width), (1, 1))
    index = starts[:, None]
    for axis, stride in enumerate(strides[:3]):
        shape = [-1 if axis == a else 1 for a in range(3)]
        index = index + stride * torch.arange(rows.shape[axis], device=device).view(shape)
    return windows.index_select(0, index.flatten()).view(*rows.shape[:3], width)
