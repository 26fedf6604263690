"""Rows that only fill up, so that numbers of selected places come again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

SHAPE_MULTIPLE = 64


def pad_to_multiple(
    values: npt.NDArray[np.int64], fill: int, fixed_shapes: bool
) -> Int[Tensor, " N"]:
    """As many as there are, one at least, so that every head takes part in every batch.

    With `fixed_shapes` up to a multiple of 64: what processors prepare for the product of a new
    shape takes them longer than a few more rows.
    """
    multiple = SHAPE_MULTIPLE if fixed_shapes else 1
    whole = np.full(multiple * max(1, -(-len(values) // multiple)), fill, np.int64)
    whole[: len(values)] = values
    return torch.from_numpy(whole)
