"""Move batches to the learner's device, and seed its random number generators."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def seed_rng(seed: int, device: torch.device) -> None:
    """Seed the default generators that a learner on this device draws from.

    torch.manual_seed takes a stack trace for every device type, which costs more than all other
    overhead of an update.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def to_device(batch: T, device: torch.device) -> T:
    """The batch, a NamedTuple of tensors, other NamedTuples and plain values, on the device."""
    return batch if device.type == "cpu" else move(batch, device)


def move(value: object, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(part, device) for part in value))
    return value
