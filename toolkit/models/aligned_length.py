"""Padding of sentences to a length that suits products over attention maps."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from toolkit.models.interface import Inputs

LENGTH_MULTIPLE = {"cuda": 8}
"""Device -> a divisor of lengths. CUDA's products of half precision are several times slower if
rows, here those of maps, do not begin at multiples of 16 bytes."""


def count_missing_columns(inputs: Inputs, max_length: int) -> int:
    """Columns of padding that the inputs need; none if there is no space for them."""
    length = inputs.tokens.shape[1]
    missing = -length % LENGTH_MULTIPLE.get(inputs.tokens.device.type, 1)
    return missing if length + missing <= max_length else 0


def add_columns(inputs: Inputs, count: int) -> Inputs:
    """The inputs with columns of padding, at position 0."""
    padding = inputs.padding
    if padding is None:
        padding = torch.zeros_like(inputs.tokens, dtype=torch.bool)
    max_position = inputs.max_position
    if max_position is not None:
        max_position = max(max_position, inputs.tokens.shape[1] + count - 1)
    return inputs._replace(
        tokens=F.pad(inputs.tokens, (0, count)),
        positions=None if inputs.positions is None else F.pad(inputs.positions, (0, count)),
        segments=None if inputs.segments is None else F.pad(inputs.segments, (0, count)),
        padding=F.pad(padding, (0, count), value=True),
        max_position=max_position,
    )


def shift_indices(selected: Int[Tensor, " N"], length: int, count: int) -> Int[Tensor, " N"]:
    """Flat indices into B x S, as indices into the same rows with `count` more columns."""
    return selected + selected // length * count
