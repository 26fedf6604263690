"""The device of a run: seeds, synchronization, and errors of its memory or the host's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from toolkit.common.errors import first_line, is_out_of_memory


def seed_rng(seed: int, device: torch.device) -> None:
    """Seed the default generators that a learner on this device draws from.

    torch.manual_seed takes a stack trace for every device type, which costs more than all other
    overhead of an update.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def synchronize(device: torch.device) -> None:
    """Wait until an accelerator has done what it was asked for; a CPU has done it already."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


T = TypeVar("T")


def run_in_memory(function: Callable[[], T]) -> tuple[T | None, str]:
    """The function's result; or None and the allocator's message, if memory ran out.

    On return the failed attempt's tensors are free, since its traceback is gone.
    """
    try:
        return function(), ""
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, first_line(error)
