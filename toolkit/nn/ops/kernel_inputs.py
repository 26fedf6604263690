"""Inputs of the attention kernels: sentences and tables of taps; maps as products left them.

Maps may be taps of which they are views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor

MAX_TAPS = 64
"""Offsets of the largest tables; larger ones take the plain path."""


class SentenceRows(NamedTuple):
    """Rows of a tensor that hold sentences: sentence b is rows starts[b], starts[b] + 1, ..."""

    starts: Int32[Tensor, " B"]
    lengths: Int32[Tensor, " B"]
    max_length: int
    """Known on the host; no sentence is longer."""
    positions: Int[Tensor, " N"] | None = None
    """Position id of each row; None: 0, 1, ... in each sentence."""
    covers_all: bool = False
    """Whether every row belongs to a sentence, so that no row has to be set to 0."""


class OffsetTables(NamedTuple):
    """Parts of the scores that depend on the offset r of a key from a query."""

    bias: Float[Tensor, "H R"] | None = None
    """Scores are increased by bias[h, r]."""
    query: Float[Tensor, "#H K R"] | None = None
    """Scores are increased by q_i . query[h, :, r] / sqrt(K)."""
    key: Float[Tensor, "#H K R"] | None = None
    """Scores are increased by k_j . key[h, :, R - 1 - r] / sqrt(K)."""

    @property
    def offsets(self) -> int:
        """R; 1 without tables."""
        return next((table.shape[-1] for table in self if table is not None), 1)

    @property
    def fit(self) -> bool:
        """Whether they are of equal and allowed size."""
        sizes = {table.shape[-1] for table in self if table is not None}
        return len(sizes) <= 1 and self.offsets <= MAX_TAPS


def add_tables(tables: Sequence[OffsetTables | None]) -> OffsetTables | None:
    """Their sum; None if one is missing."""
    total = OffsetTables()
    for summand in tables:
        if summand is None:
            return None
        pairs = zip(total, summand, strict=True)
        total = OffsetTables(*(b if a is None else a if b is None else a + b for a, b in pairs))
    return total


def tile_size(count: int) -> int:
    """A power of two of at least 16, which products of tiles require."""
    return max(16, 1 << (count - 1).bit_length())


MAP, QUERY_TAPS, KEY_TAPS = range(3)


class MapSource(NamedTuple):
    """Attention maps, or taps that they are views of."""

    tensor: Float[Tensor, "B H S _"]
    kind: int = MAP
    """QUERY_TAPS are 2 S columns with map[i, j] = taps[i, j - i + S - 1], KEY_TAPS those of keys
    with map[i, j] = taps[j, i - j + S - 1]."""


def to_rows(tensor: Tensor, kind: int) -> Tensor:
    """Taps with contiguous rows."""
    packed = kind == MAP or tensor.stride()[-2:] == (tensor.shape[-1], 1)
    return tensor if packed else tensor.contiguous()


def view_maps(tensors: Sequence[Tensor], kinds: Sequence[int]) -> list[Float[Tensor, "B _ S T"]]:
    """Maps of sources; those of taps are views with overlapping rows."""
    return [view_map(tensor, kind) for tensor, kind in zip(tensors, kinds, strict=True)]


def view_map(tensor: Tensor, kind: int) -> Float[Tensor, "B _ S T"]:
    """The attention map that a source stands for, as a view of its tensor."""
    if kind == MAP:
        return tensor
    length = tensor.shape[2]
    strides = (*tensor.stride()[:2], 2 * length - 1, 1)
    start = tensor.storage_offset() + length - 1
    view = tensor.as_strided((*tensor.shape[:3], length), strides, start)
    return view if kind == QUERY_TAPS else view.mT


def mixing_tile(x: Tensor) -> tuple[int, int]:
    """Queries and keys whose maps are mixed together: half as many numbers of four bytes."""
    return 32 // x.element_size(), 16


def count_tiles(scores: Float[Tensor, "B H S T"]) -> tuple[int, int]:
    """Along the queries and along the keys."""
    queries, keys = mixing_tile(scores)
    length = scores.shape[-1]
    return -(-length // queries), -(-length // keys)


def empty_sums(gradient: Float[Tensor, "B H S T"], weight: Float[Tensor, "H C"]) -> Tensor:
    """Summands of the gradients of weight, bias and slope, of every tile."""
    rows, columns = count_tiles(gradient)
    shape = gradient.shape[0] * rows * columns, weight.shape[0], weight.shape[1] + 2
    return gradient.new_empty(shape, dtype=torch.float32)


def empty_by_head(sizes: Sequence[int], like: Tensor) -> Float[Tensor, "B H S _"]:
    """A new tensor whose first axis in memory is that of heads, as batched products take it."""
    batch, heads, *rest = sizes
    return like.new_empty(heads, batch, *rest).transpose(0, 1)
