"""Caches of previous positions, so that a decoding step computes one position only.

B rows   N sources, B = N x beam   T previous and new positions   S new positions   H heads   K
head width
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

INITIAL_CAPACITY = 32
"""Places that a cache of keys and values has room for at first; doubled whenever they are used."""


def to_cache_dtype(x: Tensor) -> Tensor:
    """In the format that a cache keeps: on a CPU fp32 for bf16.

    Attention of few queries is a small part of a step, and products of bf16 there make a plan for
    every new shape and copy what is not in one piece, at several times the cost.
    """
    return x.float() if x.dtype == torch.bfloat16 and x.device.type == "cpu" else x


class RowReordering(NamedTuple):
    """How rows go on: row m from what was row rows[m]."""

    previous_rows: Int[Tensor, " M"]
    moved: Int[Tensor, " L"]
    """Those that come from another row."""
    kept_sources: Int[Tensor, " N"] | None = None
    """Which sources go on, in this order; None for all of them where they are."""

    @staticmethod
    def from_rows(
        rows: Int[Tensor, " M"],
        rows_per_source: int = 1,
        source_count: int = 0,
        new_rows_per_source: int = 1,
    ) -> RowReordering:
        """Number of sources; each had `was` rows and has `beam` rows next; 0 without sources."""
        places = torch.arange(len(rows), device=rows.device)
        to = (rows != places).nonzero().flatten()
        going = rows[::new_rows_per_source] // rows_per_source
        if source_count == 0 or (
            len(going) == source_count and torch.equal(going, places[:source_count])
        ):
            return RowReordering(rows, to)
        return RowReordering(rows, to, going)


class AttentionCache(ABC):
    """What one part of a layer keeps; the part itself says which kind."""

    @abstractmethod
    def append(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H _ K"], Float[Tensor, "B H T K"]]:
        """Append keys and values of new positions to the cached ones."""

    @abstractmethod
    def reorder(self, reordering: RowReordering) -> None:
        """Row m continues row rows[m]."""


class KeyValueCache(AttentionCache):
    """All keys and values so far: what attention over the places on the left reads.

    Places lie first in memory, so that new ones are written in one piece. Rows that stay where they
    are are not touched when others move.
    """

    def __init__(self) -> None:
        self.length = self.rows = 0
        self._buffers: list[Tensor] = []  # of keys and of values, (C, R, H, K), R at least B

    def append(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        before, self.length = self.length, self.length + k.shape[2]
        self.rows = self.rows or len(k)
        self.reserve(k)
        here = slice(0, self.rows)
        for room, new in zip(self._buffers, (k, v), strict=True):
            room[before : self.length, here] = new.permute(2, 0, 1, 3)  # (B, H, S, K) -> (S, B, ..)
        keys, values = (room[: self.length, here].permute(1, 2, 0, 3) for room in self._buffers)
        return keys, values

    def reserve(self, like: Float[Tensor, "B H S K"]) -> None:
        if self._buffers and self.length <= len(self._buffers[0]):
            return
        size = max(INITIAL_CAPACITY, 1 << (self.length - 1).bit_length())
        kind, shape = to_cache_dtype(like[:0]), (size, *like.shape[:2], like.shape[3])
        rooms = [kind.new_empty(shape) for _ in range(2)]
        for room, old in zip(rooms, self._buffers, strict=False):
            room[: len(old)] = old[:, : self.rows]
        self._buffers = rooms

    def reorder(self, reordering: RowReordering) -> None:
        self.rows = len(reordering.previous_rows)
        if not self._buffers:
            return
        if self.rows > self._buffers[0].shape[1]:
            self._buffers = [
                room.index_select(1, reordering.previous_rows) for room in self._buffers
            ]
        elif len(reordering.moved):
            origin = reordering.previous_rows[reordering.moved]
            for room in self._buffers:
                filled = room[: self.length]
                filled.index_copy_(1, reordering.moved, filled.index_select(1, origin))


class ConvolutionCache(AttentionCache):
    """The last inputs of a window to the left, zeros before the first: what a convolution reads."""

    def __init__(self, count: int) -> None:
        self.window = count
        self._last: Tensor | None = None

    def append(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H T K"]]:
        if self._last is None:
            self._last = v.new_zeros(*v.shape[:2], self.window, v.shape[3])
        seen = torch.cat([self._last, v], 2)
        self._last = seen[:, :, seen.shape[2] - self.window :]
        return k, seen

    def reorder(self, reordering: RowReordering) -> None:
        if self._last is not None:
            self._last = self._last.index_select(0, reordering.previous_rows)


class EncoderKV(NamedTuple):
    """What attention reads of a source: its keys, values and padding."""

    k: Float[Tensor, "N H T K"]
    v: Float[Tensor, "N H T K"]
    padding: Bool[Tensor, "N T"] | None


class EncoderKVCache:
    """Keys and values of the source, shared by all rows of the source."""

    def __init__(self) -> None:
        self._kv: EncoderKV | None = None

    def get_or_compute(self, compute: Callable[[], EncoderKV]) -> EncoderKV:
        """What is kept; at first, what `read` gives."""
        if self._kv is None:
            self._kv = compute()
        return self._kv

    @property
    def source_count(self) -> int:
        return 0 if self._kv is None else len(self._kv.k)

    def reorder(self, moves: RowReordering) -> None:
        """Rows of one source lie side by side before and after: they change places unread."""
        if self._kv is None or moves.kept_sources is None:
            return
        k, v, padding = self._kv
        hidden = None if padding is None else padding.index_select(0, moves.kept_sources)
        self._kv = EncoderKV(
            k.index_select(0, moves.kept_sources), v.index_select(0, moves.kept_sources), hidden
        )


class LayerCache(NamedTuple):
    """What one layer of a decoder keeps."""

    self_attention: AttentionCache
    cross_attention: EncoderKVCache | None = None


class DecodingCache:
    """The caches of all layers of a decoder."""

    def __init__(self, rows: int, layers: list[LayerCache]) -> None:
        self.rows, self.layers = rows, layers
        self.length = 0
        """Places that have been decoded."""

    def reorder(self, rows: Int[Tensor, " M"], beam: int | None = None) -> None:
        """Row m continues row rows[m], in place.

        Rows of one source must lie side by side, as many of each; fewer sources may go on. `beam`
        is how many rows each of them has from now on, where that changes.
        """
        sources = self.source_count
        was = self.rows // sources if sources else 1
        moves = RowReordering.from_rows(rows, was, sources, beam or was)
        self.rows = len(rows)
        for layer in self.layers:
            layer.self_attention.reorder(moves)
            if layer.cross_attention is not None:
                layer.cross_attention.reorder(moves)

    @property
    def source_count(self) -> int:
        """How many have been read."""
        source = self.layers[0].cross_attention
        return 0 if source is None else source.source_count
