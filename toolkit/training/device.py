"""Seed the random number generators of the learner's device."""

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
