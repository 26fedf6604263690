"""What a decoder keeps of the places behind it, so that a step costs one place and not all.

B rows   N sources, B = N x beam   T places behind and new   S new places   H heads   K head width
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LEAST = 32
"""Places that a cache of keys and values has room for at first; doubled whenever they are used."""


def kept_as(x: Tensor) -> Tensor:
    """In the format that a cache keeps: on a CPU fp32 for bf16.

    Attention of few queries is a small part of a step, and products of bf16 there make a plan for
    every new shape and copy what is not in one piece, at several times the cost.
    """
    return x.float() if x.dtype == torch.bfloat16 and x.device.type == "cpu" else x


class Moves(NamedTuple):
    """How rows go on: row m from what was row rows[m]."""

    rows: Int[Tensor, " M"]
    to: Int[Tensor, " L"]
    """Those that come from another row."""
    sources: Int[Tensor, " N"] | None = None
    """Which sources go on, in this order; None for all of them where they are."""

    @staticmethod
    def of(rows: Int[Tensor, " M"], was: int = 1, sources: int = 0, beam: int = 1) -> Moves:
        """Of so many sources with `was` rows each, those that go on have `beam`; 0, no sources."""
        places = torch.arange(len(rows), device=rows.device)
        to = (rows != places).nonzero().flatten()
        going = rows[::beam] // was
        if sources == 0 or (len(going) == sources and torch.equal(going, places[:sources])):
            return Moves(rows, to)
        return Moves(rows, to, going)


class Kept(ABC):
    """What one part of a layer keeps; the part itself says which kind."""

    @abstractmethod
    def extended(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H _ K"], Float[Tensor, "B H T K"]]:
        """Keys and values of the new places behind those that are kept, which they join."""

    @abstractmethod
    def reorder(self, moves: Moves) -> None:
        """Row m goes on from what was row rows[m]."""


class KeysAndValues(Kept):
    """All keys and values so far: what attention over the places on the left reads.

    Places lie first in memory, so that new ones are written in one piece. Rows that stay where they
    are are not touched when others move.
    """

    def __init__(self) -> None:
        self.length = self.rows = 0
        self._room: list[Tensor] = []  # of keys and of values, (C, R, H, K), R at least B

    def extended(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        before, self.length = self.length, self.length + k.shape[2]
        self.rows = self.rows or len(k)
        self.make_room(k)
        here = slice(0, self.rows)
        for room, new in zip(self._room, (k, v), strict=True):
            room[before : self.length, here] = new.permute(2, 0, 1, 3)  # (B, H, S, K) -> (S, B, ..)
        keys, values = (room[: self.length, here].permute(1, 2, 0, 3) for room in self._room)
        return keys, values

    def make_room(self, like: Float[Tensor, "B H S K"]) -> None:
        if self._room and self.length <= len(self._room[0]):
            return
        size = max(LEAST, 1 << (self.length - 1).bit_length())
        kind, shape = kept_as(like[:0]), (size, *like.shape[:2], like.shape[3])
        rooms = [kind.new_empty(shape) for _ in range(2)]
        for room, old in zip(rooms, self._room, strict=False):
            room[: len(old)] = old[:, : self.rows]
        self._room = rooms

    def reorder(self, moves: Moves) -> None:
        self.rows = len(moves.rows)
        if not self._room:
            return
        if self.rows > self._room[0].shape[1]:
            self._room = [room.index_select(1, moves.rows) for room in self._room]
        elif len(moves.to):
            origin = moves.rows[moves.to]
            for room in self._room:
                filled = room[: self.length]
                filled.index_copy_(1, moves.to, filled.index_select(1, origin))


class LastInputs(Kept):
    """The last inputs of a window to the left, zeros before the first: what a convolution reads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._last: Tensor | None = None

    def extended(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H T K"]]:
        if self._last is None:
            self._last = v.new_zeros(*v.shape[:2], self.count, v.shape[3])
        seen = torch.cat([self._last, v], 2)
        self._last = seen[:, :, seen.shape[2] - self.count :]
        return k, seen

    def reorder(self, moves: Moves) -> None:
        if self._last is not None:
            self._last = self._last.index_select(0, moves.rows)


class Read(NamedTuple):
    """What attention reads of a source: its keys, values and padding."""

    k: Float[Tensor, "N H T K"]
    v: Float[Tensor, "N H T K"]
    padding: Bool[Tensor, "N T"] | None


class SourceRead:
    """Keys and values of the source, once for all rows that go on from it."""

    def __init__(self) -> None:
        self._read: Read | None = None

    def of(self, read: Callable[[], Read]) -> Read:
        """What is kept; at first, what `read` gives."""
        if self._read is None:
            self._read = read()
        return self._read

    @property
    def count(self) -> int:
        return 0 if self._read is None else len(self._read.k)

    def reorder(self, moves: Moves) -> None:
        """Rows of one source lie side by side before and after: they change places unread."""
        if self._read is None or moves.sources is None:
            return
        k, v, padding = self._read
        hidden = None if padding is None else padding.index_select(0, moves.sources)
        self._read = Read(
            k.index_select(0, moves.sources), v.index_select(0, moves.sources), hidden
        )


class LayerCache(NamedTuple):
    """What one layer of a decoder keeps."""

    own: Kept
    source: SourceRead | None = None


class Cache:
    """What all layers of a decoder keep, for so many rows."""

    def __init__(self, rows: int, layers: list[LayerCache]) -> None:
        self.rows, self.layers = rows, layers
        self.length = 0
        """Places that have been decoded."""

    def reorder(self, rows: Int[Tensor, " M"], beam: int | None = None) -> None:
        """Row m goes on from what was row rows[m], in place.

        Rows of one source must lie side by side, as many of each; fewer sources may go on. `beam`
        is how many rows each of them has from now on, where that changes.
        """
        sources = self.sources
        was = self.rows // sources if sources else 1
        moves = Moves.of(rows, was, sources, beam or was)
        self.rows = len(rows)
        for layer in self.layers:
            layer.own.reorder(moves)
            if layer.source is not None:
                layer.source.reorder(moves)

    @property
    def sources(self) -> int:
        """How many have been read."""
        source = self.layers[0].source
        return 0 if source is None else source.count
