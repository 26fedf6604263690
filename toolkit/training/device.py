"""Moving a batch to where the learner is."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def to_device(batch: T, device: torch.device) -> T:
    """The batch, a NamedTuple of tensors and of such tuples, on the device; the rest as it is."""
    return batch if device.type == "cpu" else moved(batch, device)


def moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(part, device) for part in value))
    return value
