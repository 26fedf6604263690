"""Offsets j - i between positions, computed from position ids, never from indices.

B batch   S queries   T keys   H heads   R kernel taps, 2 * radius + 1
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.common.positions import HIDDEN_POSITION
from toolkit.nn.ops.skew import MovedTokens, find_moved_tokens, scatter_by_position

CACHED_TABLES = 8
"""Number of cached tables; all layers of a batch read the same one."""
LARGE_TABLE = 1 << 21
"""Size in elements above which only the last table is cached."""
GPU_ONE_HOT = 1 << 28
"""Numbers of the one-hot matrices that a GPU makes together."""
POSITIONS_MULTIPLE = 8
"""A divisor of the number of positions on a GPU, whose products want rows of whole 16 bytes."""
UNKNOWN_LIMIT = 2**31
"""A bound above all offsets, if the largest is unknown."""


@lru_cache(maxsize=CACHED_TABLES)
def cached_tap_indices(length: int, radius: int, device: torch.device) -> Int[Tensor, "1 S T"]:
    """clip(j - i, -radius, radius) + radius for positions 0 .. length-1."""
    with torch.inference_mode(False):  # a cached inference tensor would fail in training
        return clip_offsets(torch.arange(length, device=device)[None], radius)


def cached_one_hot(
    length: int, radius: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "S T R"]:
    """1 where offset (i, j) reads tap r, else 0; cached."""
    large = length * length * (2 * radius + 1) > LARGE_TABLE
    return (_large_one_hot if large else _small_one_hot)(length, radius, device, dtype)


def _build_one_hot(length: int, radius: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return one_hot(cached_tap_indices(length, radius, device)[0], radius, dtype)


_small_one_hot = lru_cache(maxsize=CACHED_TABLES)(_build_one_hot)
_large_one_hot = lru_cache(maxsize=1)(_build_one_hot)


def clip_offsets(positions: Int[Tensor, "B S"], radius: int) -> Int[Tensor, "B S S"]:
    """clip(p_j - p_i, -radius, radius) + radius: the tap that each pair of positions reads."""
    offsets = positions[:, None, :] - positions[:, :, None]
    return offsets.clamp(-radius, radius) + radius


def one_hot(
    taps: Int[Tensor, "*B S T"], radius: int, dtype: torch.dtype
) -> Float[Tensor, "*B S T R"]:
    """1 where a pair of positions reads tap r, else 0."""
    return (taps[..., None] == torch.arange(2 * radius + 1, device=taps.device)).to(dtype)


class Offsets:
    """Offsets between the positions of a batch: one table for all sentences, or one for each.

    Tables for plain positions 0 .. T-1 are cached per length, radius and device; those of explicit
    position ids are computed once per batch and shared by its layers.
    """

    def __init__(
        self,
        positions: Int[Tensor, "B S"] | None,
        length: int,
        device: torch.device,
        limit: int = UNKNOWN_LIMIT,
        query_start: int = 0,
    ) -> None:
        """`limit` is above all ids, which are at least -1; it saves a synchronization with a GPU.

        Queries start at `query_start`; keys of previous positions come from a cache.
        """
        self.positions, self.length, self.device = positions, length, device
        self.query_start = query_start
        self._limit = limit
        self._taps: dict[int, Tensor] = {}

    @property
    def shared(self) -> bool:
        """Whether all sentences have the same offsets."""
        return self.positions is None

    @property
    def bounds(self) -> tuple[int, int]:
        """A lower and an upper bound of all ids."""
        if self.positions is None:
            return 0, self.length - 1
        if self.positions.device.type != "cpu":
            count = self._limit - HIDDEN_POSITION
            return HIDDEN_POSITION, self._limit - 1 + -count % POSITIONS_MULTIPLE
        return self.host_bounds

    @cached_property
    def host_bounds(self) -> tuple[int, int]:
        """The bounds of all ids, computed on the host."""
        assert self.positions is not None, "plain positions need no look"
        return min(0, int(self.positions.min())), max(self.length - 1, int(self.positions.max()))

    @property
    def max_offset(self) -> int:
        """An upper bound of all offsets."""
        low, high = self.bounds
        return high - low

    @cached_property
    def ids(self) -> Int[Tensor, "B S"]:
        """Position ids counted from 0."""
        assert self.positions is not None, "plain positions have no ids"
        return self.positions - self.bounds[0]

    @cached_property
    def ordered_prefix(self) -> int:
        """Number of sentences in order at the start of the batch; 0 on a GPU, without a check."""
        if self.positions is None or self.positions.device.type != "cpu":
            return 0
        in_order = (self.positions == torch.arange(self.length)).all(1)
        return int(in_order.long().cumprod(0).sum())

    @cached_property
    def moved_tokens(self) -> MovedTokens:
        """Tokens that are not in order; all of them on a GPU."""
        every, first, count = self.device.type != "cpu", -self.bounds[0], self.max_offset + 1
        return find_moved_tokens(self.ids, first, count, self.ordered_prefix, every=every)

    def prepare(self) -> None:
        """Find on a GPU what all layers read; compiled ones cannot make what is cached."""
        if self.positions is not None and self.positions.device.type != "cpu":
            self.moved_tokens  # noqa: B018

    def tap_indices(self, radius: int) -> Int[Tensor, "#B S T"]:
        """Index of the tap for each pair; offsets beyond the radius share the outermost."""
        if self.query_start:
            positions = torch.arange(self.length, device=self.device)
            offsets = positions - positions[self.query_start :, None]
            return offsets.clamp(-radius, radius)[None] + radius
        if self.positions is None and torch.compiler.is_exporting():  # lengths are symbols
            return clip_offsets(torch.arange(self.length, device=self.device)[None], radius)
        if self.positions is None:
            return cached_tap_indices(self.length, radius, self.device)
        if radius not in self._taps:
            self._taps[radius] = clip_offsets(self.positions, radius)
        return self._taps[radius]


def scatter_to_diagonals(
    taps: Float[Tensor, "#B H S R"], offsets: Offsets
) -> Float[Tensor, "#B H S T"]:
    """Scores by offset: out[b, h, i, j] = taps[b, h, i, clip(p_j - p_i) + radius]."""
    radius = (taps.shape[-1] - 1) // 2
    if offsets.query_start:
        index = offsets.tap_indices(radius).unsqueeze(1)
        return taps.gather(-1, index.expand(*taps.shape[:2], -1, -1))
    if offsets.shared and radius == offsets.length - 1:
        return skew(taps)
    if not offsets.shared and radius >= offsets.max_offset:
        sentences = len(offsets.ids)
        if offsets.ordered_prefix == sentences:
            return skew(taps)
        taps = taps.expand(sentences, -1, -1, -1)
        return scatter_by_position(taps, offsets.ids, offsets.moved_tokens)
    index = offsets.tap_indices(radius)
    if torch.compiler.is_exporting():
        return taps.gather(-1, index.unsqueeze(1).expand(*taps.shape[:2], -1, -1))
    scores: Tensor = _ScatterToDiagonals.apply(taps, index, offsets.shared)
    return scores


def skew(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S S"]:
    """A view of the taps, out[.., i, j] = taps[.., i, j - i + r], for r = (R - 1) // 2 >= S - 1.

    In each next row the same offset is one column further left (Huang et al. 2019, section 3.4.1,
    who copy).
    """
    if torch.compiler.is_compiling():
        return skew_by_views(taps)
    length, count = taps.shape[-2:]
    if taps.stride()[-2:] != (count, 1):
        taps = taps.contiguous()
    strides = (*taps.stride()[:-2], count - 1, 1)
    start = taps.storage_offset() + (count - 1) // 2
    return taps.as_strided((*taps.shape[:-1], length), strides, start)


def skew_by_views(taps: Float[Tensor, "B H S R"]) -> Float[Tensor, "B H S S"]:
    """`skew` as a chain of views, since compilers do not follow `as_strided`.

    Outside of them its backward pass takes up to 1.4 times as long on a CPU.
    """
    length, count = taps.shape[-2:]
    start = (count - 1) // 2
    flat = taps.flatten(-2)[..., start : start + length * (count - 1)]
    return flat.unflatten(-1, (length, count - 1))[..., :length]


class _ScatterToDiagonals(torch.autograd.Function):
    """A gather whose gradient is a product with one-hot matrices, summed in a fixed order."""

    @staticmethod
    def forward(ctx, taps, index, shared):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(index)
        ctx.shared, ctx.taps = shared, taps.shape[-1]
        batch = max(len(taps), len(index))
        if shared:
            table = cached_one_hot(index.shape[-1], ctx.taps // 2, index.device, taps.dtype)
            by_query = taps.flatten(0, 1).transpose(0, 1)  # (B, H, S, R) -> (S, BH, R)
            scores = (by_query @ table.mT).transpose(0, 1)  # (S, BH, R) @ (S, R, T) -> (BH, S, T)
            return scores.unflatten(0, taps.shape[:2])
        by_head = index.unsqueeze(1).expand(batch, taps.shape[1], -1, -1)
        return taps.expand(batch, -1, -1, -1).gather(-1, by_head)  # (B, H, S, R) -> (B, H, S, T)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (index,) = ctx.saved_tensors
        radius = ctx.taps // 2
        if ctx.shared:
            table = cached_one_hot(index.shape[-1], radius, index.device, gradient.dtype)
            by_query = gradient.flatten(0, 1).transpose(0, 1)  # (B, H, S, T) -> (S, BH, T)
            grad_taps = (by_query @ table).transpose(0, 1)  # (S, BH, T) @ (S, T, R) -> (BH, S, R)
            return grad_taps.unflatten(0, gradient.shape[:2]), None, None
        at_once = sentences_at_once(index, ctx.taps)
        parts = zip(gradient.split(at_once), index.split(at_once), strict=True)
        grad_taps = [  # (b, S, H, T) @ (b, S, T, R) -> (b, H, S, R)
            (g.transpose(1, 2) @ one_hot(i, radius, g.dtype)).transpose(1, 2) for g, i in parts
        ]
        return torch.cat(grad_taps), None, None


def sentences_at_once(index: Int[Tensor, "B S T"], taps: int) -> int:
    """Sentences whose one-hot matrices are made together: on a CPU one, which its cache holds."""
    if index.device.type == "cpu":
        return 1
    return max(1, GPU_ONE_HOT // (index[0].numel() * taps))
