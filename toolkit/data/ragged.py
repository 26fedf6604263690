"""Ragged arrays: rows of different lengths back to back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray


def ragged_arange(starts: IntArray | int, counts: IntArray) -> IntArray:
    """counts[0] integers from starts[0] on, then counts[1] from starts[1] on, ..., back to back."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + counts, counts)


def pack_rows(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """The values of all rows back to back, and the number of values per row."""
    lengths = np.array([len(row) for row in rows], np.int64)
    return np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths


def split_rows(values: AnyArray, lengths: IntArray) -> list[AnyArray]:
    """The rows that `pack_rows` packed."""
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
