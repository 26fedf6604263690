"""Many runs of consecutive numbers at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def ragged_arange(begins: Numbers | int, counts: Numbers) -> Numbers:
    """counts[0] numbers from begins[0] on, then counts[1] from begins[1] on, ..., back to back."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total) + np.repeat(begins - ends + counts, counts)
