"""Rows that only fill up, so that numbers of selected places come again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

STABLE_ROWS = 64


def filled(values: npt.NDArray[np.int64], filler: int, fixed_shapes: bool) -> Int[Tensor, " N"]:
    """As many as there are, one at least, so that every head takes part in every batch.

    With `fixed_shapes` up to a multiple of 64: what processors prepare for the product of a new
    shape takes them longer than a few more rows.
    """
    multiple = STABLE_ROWS if fixed_shapes else 1
    whole = np.full(multiple * max(1, -(-len(values) // multiple)), filler, np.int64)
    whole[: len(values)] = values
    return torch.from_numpy(whole)
