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


class Kept(ABC):
    """What one part of a layer keeps; the part itself says which kind."""

    @abstractmethod
    def extended(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H _ K"], Float[Tensor, "B H T K"]]:
        """Keys and values of the new places behind those that are kept, which they join."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, " M"]) -> None:
        """Row m goes on from what was row rows[m]."""


class KeysAndValues(Kept):
    """All keys and values so far: what attention over the places on the left reads.

    Places lie first in memory, so that new ones are written and rows are reordered in one piece.
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: list[Tensor] = []  # of keys and of values, (C, B, H, K)
        self._spare: list[Tensor] = []

    def extended(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        before, self.length = self.length, self.length + k.shape[2]
        self.make_room(k)
        for room, new in zip(self._room, (k, v), strict=True):
            room[before : self.length] = new.permute(2, 0, 1, 3)  # (B, H, S, K) -> (S, B, H, K)
        keys, values = (room[: self.length].permute(1, 2, 0, 3) for room in self._room)
        return keys, values

    def make_room(self, like: Float[Tensor, "B H S K"]) -> None:
        if self._room and self.length <= len(self._room[0]):
            return
        size = max(LEAST, 1 << (self.length - 1).bit_length())
        rooms = [like.new_empty(size, *like.shape[:2], like.shape[3]) for _ in range(2)]
        for room, old in zip(rooms, self._room, strict=False):
            room[: len(old)] = old
        self._room, self._spare = rooms, []

    def reorder(self, rows: Int[Tensor, " M"]) -> None:
        if not self._room:
            return
        if not self._spare or self._spare[0].shape[1] != len(rows):
            size, _, *shape = self._room[0].shape
            self._spare = [self._room[0].new_empty(size, len(rows), *shape) for _ in range(2)]
        for room, spare in zip(self._room, self._spare, strict=True):
            torch.index_select(room[: self.length], 1, rows, out=spare[: self.length])
        self._room, self._spare = self._spare, self._room


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

    def reorder(self, rows: Int[Tensor, " M"]) -> None:
        if self._last is not None:
            self._last = self._last.index_select(0, rows)


class Read(NamedTuple):
    """What attention reads of a source: its keys, values and padding."""

    k: Float[Tensor, "N H T K"]
    v: Float[Tensor, "N H T K"]
    padding: Bool[Tensor, "N T"] | None


class SourceRead:
    """Keys and values of the source, once for all rows that go on from it."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._read: Read | None = None

    def of(self, read: Callable[[], Read]) -> Read:
        """What is kept; at first, what `read` gives."""
        if self._read is None:
            self._read = read()
        return self._read

    def reorder(self, rows: Int[Tensor, " M"]) -> None:
        """Rows of one source lie side by side before and after: they change places unread."""
        if self._read is None:
            return
        k, v, padding = self._read
        beam = self.rows // len(k)
        sources = rows[::beam] // beam
        self.rows = len(rows)
        if len(sources) == len(k) and bool((sources.diff() == 1).all()):
            return
        hidden = None if padding is None else padding.index_select(0, sources)
        self._read = Read(k.index_select(0, sources), v.index_select(0, sources), hidden)


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

    def reorder(self, rows: Int[Tensor, " M"]) -> None:
        """Row m goes on from what was row rows[m], in place; fewer rows than before may go on.

        Rows of one source must lie side by side, as many of each, and stay so.
        """
        self.rows = len(rows)
        for layer in self.layers:
            layer.own.reorder(rows)
            if layer.source is not None:
                layer.source.reorder(rows)
