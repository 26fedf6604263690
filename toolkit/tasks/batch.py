"""Micro-batches: tensors for the learner, and on the host what the trainer must know."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from toolkit.models.interface import Inputs


@runtime_checkable
class Batch(Protocol):
    """Every task's batch is a NamedTuple with at least these fields."""

    @property
    def inputs(self) -> Inputs: ...
    @property
    def weights(self) -> dict[str, float]:
        """Objective -> number of places it is a sum over; all zero for an idle rank."""
        ...

    @property
    def sentences(self) -> int: ...
    @property
    def tokens(self) -> int:
        """Tokens without padding."""
        ...


class MaskedBatch(NamedTuple):
    """Sentences with hidden tokens, and what was hidden where."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Selected places as flat indices into B x S; rows beyond the last target repeat place 0."""
    targets: Int[Tensor, " N"]
    """True token of each selected place; IGNORED (-100) in the rows that only fill up."""
    weights: dict[str, float]
    sentences: int
    tokens: int
