"""Inputs of attention with learned taps besides the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    """Scores are increased by q_i . query[h, :, r]; already scaled."""
    key: Float[Tensor, "#H K R"] | None = None
    """Scores are increased by k_j . key[h, :, R - 1 - r]; already scaled."""

    @property
    def offsets(self) -> int:
        """R; 1 without tables."""
        return next((table.shape[-1] for table in self if table is not None), 1)

    @property
    def fit(self) -> bool:
        """Whether they are of equal and allowed size."""
        sizes = {table.shape[-1] for table in self if table is not None}
        return len(sizes) <= 1 and self.offsets <= MAX_TAPS

    @property
    def padded_offsets(self) -> int:
        """Width of a tile of taps."""
        return tile_size(self.offsets)


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
