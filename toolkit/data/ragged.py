"""Ragged ranges."""

from __future__ import annotations

import numpy as np

from toolkit.common.arrays import IntArray


def ragged_arange(starts: IntArray | int, counts: IntArray) -> IntArray:
    """counts[0] integers from starts[0] on, then counts[1] from starts[1] on, ..., back to back."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + counts, counts)
