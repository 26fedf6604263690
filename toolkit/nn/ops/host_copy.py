"""Copies of small tables from the host to the device."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor


def copy_to_device(table: Shaped[Tensor, "*shape"], device: torch.device) -> Tensor:
    """The table on the device; from pinned memory, so that the host does not wait for a GPU."""
    if device.type == "cuda":
        return table.pin_memory().to(device, non_blocking=True)
    return table.to(device)
