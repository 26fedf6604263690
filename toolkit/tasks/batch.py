"""Micro-batches: tensors for the learner, and on the host what the trainer needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.models.interface import Inputs
from toolkit.models.packing import Packing, pack_padding

T = TypeVar("T")


@runtime_checkable
class Batch(Protocol):
    """Every task's batch is a NamedTuple with at least these fields."""

    @property
    def inputs(self) -> Inputs:
        """Inputs of the encoder."""

    @property
    def weights(self) -> dict[str, float]:
        """Objective -> number of terms its loss sums over; all zero for an idle rank."""
        ...

    @property
    def sentences(self) -> int:
        """Number of sentences."""

    @property
    def tokens(self) -> int:
        """Tokens without padding."""
        ...


class MaskedBatch(NamedTuple):
    """Sentences with masked tokens and the original ones."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions into B x S; padding rows repeat index 0."""
    targets: Int[Tensor, " N"]
    """Original token of each selected position; IGNORED (-100) in padding rows."""
    weights: dict[str, float]
    sentences: int
    tokens: int


def to_device(batch: T, device: torch.device, *, packs: bool = False) -> T:
    """The batch, a NamedTuple of tensors, other NamedTuples and plain values, on the device.

    With `packs`, inputs on other devices than a CPU get their packing.
    """
    if device.type == "cpu":
        return batch
    return move(add_packing(batch, pack_padding) if packs else batch, device)


def move(value: object, device: torch.device) -> Any:
    """The value on the device, including tensors inside NamedTuples."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=device.type != "mps")  # only from pinned memory there
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(part, device) for part in value))
    return value


def add_packing(value: T, pack: Callable[[Tensor], Packing | None]) -> T:
    """A batch on the host with the packing of its padded inputs, unless they have one."""
    named: Any = value
    if isinstance(value, Inputs):
        if value.padding is None or value.packing is not None:
            return named
        return named._replace(packing=pack(value.padding))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(named)(*(add_packing(part, pack) for part in named))
    return value
