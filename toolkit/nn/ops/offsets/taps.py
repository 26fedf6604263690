"""Reading of taps by clipped offset, and its transpose: sums of scores by clipped offset.

B batch   S queries   T keys   H heads   R kernel taps, 2 * radius + 1
I inner taps, 2 * radius - 1   C positions of several keys

On CPUs, in sentences at positions 0 .. S-1, all pairs at the radius or beyond read the first or the
last tap, which bit masks select several times faster than products or indices; each of the other
taps is on a diagonal. In other sentences the keys at each offset within the radius are found by
their ids. Elsewhere both directions are products with one-hot matrices where gradients are summed,
in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.dropout import INTEGER_DTYPES, apply_keep_mask


class TapTable:
    """The taps that the pairs of queries and keys of a batch read."""

    def __init__(
        self,
        queries: Int[Tensor, "#B S"],
        keys: Int[Tensor, "#B T"],
        radius: int,
        in_order: int | None = None,
    ) -> None:
        """The first `in_order` sentences are at positions 0 .. S-1; None: all."""
        self.queries, self.keys, self.radius = queries, keys, radius
        self.in_order = in_order
        self._outermost: dict[torch.dtype, Outermost] = {}

    @property
    def offsets(self) -> Int[Tensor, "b 1 S T"]:
        """p_j - p_i of sentences that are not in order."""
        keys, queries = self.keys[self.in_order :], self.queries[self.in_order :]
        return keys[:, None, None] - queries[:, None, :, None]

    @cached_property
    def index(self) -> Int[Tensor, "b 1 S T"]:
        """Their taps."""
        return self.offsets.clamp(-self.radius, self.radius) + self.radius

    @cached_property
    def inner_keys(self) -> InnerKeys:
        """Their keys at p_i - radius + 1 .. p_i + radius - 1 for queries at p_i."""
        keys, queries = self.keys[self.in_order :], self.queries[self.in_order :]
        ordered, order = keys.sort(dim=1)
        wanted = queries[..., None] + torch.arange(1 - self.radius, self.radius)
        first, count = find_runs(ordered, wanted)
        start, size = find_runs(ordered, ordered)
        shared = size > 1
        numbers = (shared & (start == torch.arange(keys.shape[1]))).cumsum(1)  # from 1
        group = torch.arange(1, int(numbers.max()) + 1)
        in_group = ((numbers[..., None] == group) & shared[..., None]).float()  # (B, T, C) in order
        index = order[..., None].expand_as(in_group)
        members = torch.zeros_like(in_group).scatter_(1, index, in_group)
        return InnerKeys(
            order.gather(1, first.flatten(1)).view_as(wanted)[:, None],
            (count != 1)[:, None],
            (numbers.gather(1, first.flatten(1)) - 1).clamp_(min=0).view_as(wanted)[:, None],
            (count < 2)[:, None],
            members[:, None],
        )

    def outermost(self, dtype: torch.dtype) -> Outermost:
        """Their masks."""
        if dtype not in self._outermost:
            self._outermost[dtype] = mask_outermost(self.offsets, self.radius, dtype)
        return self._outermost[dtype]

    def read(self, taps: Float[Tensor, "#B H S R"]) -> Float[Tensor, "#B H S T"]:
        """out[b, h, i, j] = taps[b, h, i, clip(p_j - p_i, -radius, radius) + radius]."""
        if self.in_order is not None:
            taps = taps.expand(max(len(taps), len(self.keys)), -1, -1, -1)
        scores = taps.new_empty(*taps.shape[:3], self.keys.shape[1])
        if self.in_order != 0:
            read_diagonals(taps[: self.in_order], scores[: self.in_order])
        if self.in_order is not None:
            others = taps[self.in_order :]
            index = self.index.expand(len(others), taps.shape[1], -1, -1)
            torch.gather(others, -1, index, out=scores[self.in_order :])
        return scores

    def sum(self, scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S R"]:
        """out[b, h, i, r] = sum of scores[b, h, i, j] over the j with the tap r."""
        sums = scores.new_empty(*scores.shape[:3], 2 * self.radius + 1)
        if self.in_order != 0:
            sum_diagonals(scores[: self.in_order], sums[: self.in_order])
        if self.in_order is not None:
            others, out = scores[self.in_order :], sums[self.in_order :]
            sum_outermost(others, self.outermost(scores.dtype), out)
            out[..., 1:-1] = self.inner_keys.sum(others)
        return sums


class InnerKeys(NamedTuple):
    """The single key at each inner offset of each query, or the several keys that share it."""

    keys: Int[Tensor, "#B 1 S I"]
    no_single: Bool[Tensor, "#B 1 S I"]
    """Where no key or several keys have the position."""
    groups: Int[Tensor, "#B 1 S I"]
    no_group: Bool[Tensor, "#B 1 S I"]
    """Where at most one key has the position."""
    members: Float[Tensor, "#B 1 T C"]
    """1 for the keys of each position that several share, else 0."""

    def sum(self, scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S I"]:
        """The sum of the scores of all keys at each inner offset."""
        sums = gather_or_zero(scores, self.keys, self.no_single)
        if self.members.shape[-1]:
            of_groups = scores @ self.members.to(scores.dtype)
            sums += gather_or_zero(of_groups, self.groups, self.no_group)
        return sums


def gather_or_zero(
    scores: Float[Tensor, "B H S n"],
    index: Int[Tensor, "#B 1 S I"],
    absent: Bool[Tensor, "#B 1 S I"],
) -> Float[Tensor, "B H S I"]:
    """The scores at an index, 0 where absent."""
    by_head = index.expand(*scores.shape[:2], -1, -1)
    return scores.gather(-1, by_head).masked_fill_(absent, 0.0)


def find_runs(
    ordered: Int[Tensor, "B T"], wanted: Int[Tensor, "B ..."]
) -> tuple[Int[Tensor, "B ..."], Int[Tensor, "B ..."]]:
    """Where each wanted number is first in an ascending row, and how often; 0 times if absent."""
    flat = wanted.flatten(1)
    first = torch.searchsorted(ordered, flat)
    count = torch.searchsorted(ordered, flat, right=True) - first
    first = first.clamp_(max=ordered.shape[1] - 1)
    return first.view_as(wanted), count.view_as(wanted)


Outermost = tuple[Int[Tensor, "*b S T"], Int[Tensor, "*b S T"]]
"""All bits of the pairs that read the first, and the last tap; none of other pairs."""


def mask_outermost(offsets: Int[Tensor, "*b S T"], radius: int, dtype: torch.dtype) -> Outermost:
    """Masks of the size of `dtype` for offsets j - i."""
    integer = INTEGER_DTYPES[dtype]
    first, last = offsets <= -radius, offsets >= radius
    return first.to(integer).neg_(), last.to(integer).neg_()


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
    mask, _ = cached_outermost(length, radius, out.dtype)
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
    for tap, mask in zip((0, -1), masks, strict=True):
        out[..., tap] = apply_keep_mask(scores, mask).sum(-1)


def pair_diagonals(
    scores: Float[Tensor, "B H S S"], taps: Float[Tensor, "B H S R"]
) -> Iterator[tuple[Float[Tensor, "B H n"], Float[Tensor, "B H n"]]]:
    """Scores and taps of each offset within the radius, as views."""
    length, radius = scores.shape[-1], taps.shape[-1] // 2
    reach = min(radius, length) - 1
    for offset in range(-reach, reach + 1):
        rows = slice(max(0, -offset), length - max(0, offset))
        yield scores.diagonal(offset, -2, -1), taps[:, :, rows, radius + offset]


GPU_ONE_HOT = 1 << 28
"""Numbers of the one-hot matrices that a GPU makes together."""


def apply_linear(x: Tensor, function: LinearMap, transpose: LinearMap) -> Tensor:
    """function(x) of a linear function, whose gradient is its transpose."""
    y: Tensor = _Linear.apply(x, function, transpose)
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, function, transpose):  # type: ignore[no-untyped-def]
        ctx.transpose = transpose
        return function(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return ctx.transpose(gradient), None, None


LinearMap = Callable[[Tensor], Tensor]


def one_hot(
    taps: Int[Tensor, "*B S T"], radius: int, dtype: torch.dtype
) -> Float[Tensor, "*B S T R"]:
    """1 where a pair of positions reads tap r, else 0."""
    return (taps[..., None] == torch.arange(2 * radius + 1, device=taps.device)).to(dtype)


def gather_scores(
    taps: Float[Tensor, "#B H S R"], index: Int[Tensor, "#B S T"], *, shared: bool
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = taps[b, h, i, index[b, i, j]]; `shared`: of plain positions."""
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
    """out[b, h, i, r] = sum of scores[b, h, i, j] over the j with index[b, i, j] = r."""
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


def sentences_at_once(index: Int[Tensor, "B S T"], taps: int) -> int:
    """Sentences whose one-hot matrices are made together: on a CPU one, which its cache holds."""
    if index.device.type == "cpu":
        return 1
    return max(1, GPU_ONE_HOT // (index[0].numel() * taps))
