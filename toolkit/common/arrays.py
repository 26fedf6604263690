"""Types of NumPy arrays, the id of a hidden position, ragged arrays, and random numbers as a hash.

A random number is a hash of the position it is for, instead of a generator's state. The mixing
function is the finalizer of SplitMix64 (Steele, Lea & Flood 2014, Fig. 16).

The rows of a ragged array have different lengths and lie back to back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
"""Values of any type, such as those of a column."""


HIDDEN_POSITION = -1
"""Id of a position that is hidden from the model (TACO, A.2)."""


UInt64 = npt.NDArray[np.uint64]
UInt8 = npt.NDArray[np.uint8]
GOLDEN = 0x9E3779B97F4A7C15


def mix(*parts: int | npt.NDArray[Any]) -> UInt64:
    """h <- f(h + part + golden) over the parts in turn, f SplitMix64's finalizer; broadcasts.

    Every part is an integer or an array of integers; the result is uniform over 0 .. 2^64 - 1.
    """
    state = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        for part in parts:
            if isinstance(part, int):
                part = np.uint64(part & 0xFFFFFFFFFFFFFFFF)
            z = state + np.asarray(part).astype(np.uint64) + np.uint64(GOLDEN)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = z ^ (z >> np.uint64(31))
    return np.asarray(state)


def uniform(bits: UInt64) -> npt.NDArray[np.float64]:
    """The hash as a number in [0, 1), from its 53 highest bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def derive_seed(*parts: int) -> int:
    """A seed for torch.manual_seed, 0 .. 2^63 - 1."""
    return int(mix(*parts)) >> 1


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
