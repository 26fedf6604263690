"""Caches of previous positions, so that a decoding step computes one position only.

B rows   N sources, B = N x beam   T previous and new positions   S new positions   H heads
K head width
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

INITIAL_CAPACITY = 32
"""Initial capacity of a key-value cache in positions; doubled whenever it is full."""


def to_cache_dtype(x: Tensor) -> Tensor:
    """x in the dtype of the cache: on a CPU fp32 for bf16, whose products plan every new shape and
    copy strided operands, at several times the cost.
    """
    return x.float() if x.dtype == torch.bfloat16 and x.device.type == "cpu" else x


class KeyValueCache:
    """Keys and values of all previous positions, the first axis in memory, so that new ones are
    written contiguously. Reordering copies moved rows only.
    """

    def __init__(self) -> None:
        self.length = self.rows = 0
        self._buffers: list[Tensor] = []  # keys and values, (capacity, R, H, K), R >= B

    def append(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        """Append keys and values of new positions to the cached ones."""
        before, self.length = self.length, self.length + k.shape[2]
        self.rows = self.rows or len(k)
        self.reserve(k)
        rows = slice(0, self.rows)
        for buffer, x in zip(self._buffers, (k, v), strict=True):
            buffer[before : self.length, rows] = x.permute(2, 0, 1, 3)  # (B, H, S, K) -> (S, B, ..)
        keys, values = (x[: self.length, rows].permute(1, 2, 0, 3) for x in self._buffers)
        return keys, values

    def reserve(self, like: Float[Tensor, "B H S K"]) -> None:
        if self._buffers and self.length <= len(self._buffers[0]):
            return
        size = max(INITIAL_CAPACITY, 1 << (self.length - 1).bit_length())
        empty, shape = to_cache_dtype(like[:0]), (size, *like.shape[:2], like.shape[3])
        buffers = [empty.new_empty(shape) for _ in range(2)]
        for buffer, old in zip(buffers, self._buffers, strict=False):
            buffer[: len(old)] = old[:, : self.rows]
        self._buffers = buffers

    def reorder(self, rows: Int[Tensor, " M"], moved: Int[Tensor, " L"]) -> None:
        """Let row m continue row rows[m]; `moved` are the rows for which that is another."""
        self.rows = len(rows)
        if not self._buffers:
            return
        if self.rows > self._buffers[0].shape[1]:
            self._buffers = [buffer.index_select(1, rows) for buffer in self._buffers]
        elif len(moved):
            for buffer in self._buffers:
                used = buffer[: self.length]
                used.index_copy_(1, moved, used.index_select(1, rows[moved]))


class ConvolutionCache:
    """The last inputs in the window of a causal convolution, zeros before the first."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._last: Tensor | None = None

    def append(
        self, k: Float[Tensor, "B H S K"], v: Float[Tensor, "B H S K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H T K"]]:
        if self._last is None:
            self._last = v.new_zeros(*v.shape[:2], self.window, v.shape[3])
        values = torch.cat([self._last, v], 2)
        self._last = values[:, :, values.shape[2] - self.window :]
        return k, values

    def reorder(self, rows: Int[Tensor, " M"], moved: Int[Tensor, " L"]) -> None:
        if self._last is not None:
            self._last = self._last.index_select(0, rows)


AttentionCache = KeyValueCache | ConvolutionCache
"""Cache of one attention sublayer; `AttentionMap.init_cache` chooses the kind."""


class SourceCache:
    """Keys, values and padding of the source, shared by all rows of the source."""

    kv: tuple[Float[Tensor, "N H T K"], Float[Tensor, "N H T K"], Bool[Tensor, "N T"] | None] | None
    """None until the first step."""

    def __init__(self) -> None:
        self.kv = None

    def select(self, sources: Int[Tensor, " N"]) -> None:
        """Keep these sources, in this order."""
        assert self.kv is not None, "the source was read"
        k, v, padding = self.kv
        padding = None if padding is None else padding.index_select(0, sources)
        self.kv = k.index_select(0, sources), v.index_select(0, sources), padding


LayerCache = tuple[AttentionCache, SourceCache | None]
"""The caches of the attention of one layer of a decoder: to itself, and to a source."""


class DecodingCache:
    """The caches of all layers of a decoder."""

    def __init__(self, rows: int, layers: list[LayerCache]) -> None:
        self.rows, self.layers = rows, layers
        self.length = 0
        """Number of decoded positions."""

    def reorder(self, rows: Int[Tensor, " M"], beam: int | None = None) -> None:
        """Let row m continue row rows[m], in place.

        Rows of one source must be adjacent, the same number for each; sources may end. `beam` is
        the new number of rows per source if it changes.
        """
        first, identity = self.layers[0][1], torch.arange(len(rows), device=rows.device)
        count = 0 if first is None or first.kv is None else len(first.kv[0])  # of sources
        moved = (rows != identity).nonzero().flatten()
        rows_per_source = self.rows // count if count else 1
        sources = rows[:: beam or rows_per_source] // rows_per_source
        unchanged = len(sources) == count and torch.equal(sources, identity[:count])
        self.rows = len(rows)
        for own, source in self.layers:
            own.reorder(rows, moved)
            if source is not None and count and not unchanged:
                source.select(sources)
