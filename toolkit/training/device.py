"""Seed the random number generators of the learner's device, and wait for it."""

from __future__ import annotations

import torch


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
