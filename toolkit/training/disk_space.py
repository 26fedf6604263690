"""A warning if the disk is too full for the checkpoints of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from torch import nn

COPIES = 3
"""The last checkpoint, the best, and the one being written."""
MOMENTS = 2
"""Optimizer tensors per parameter: Adam's, since most optimizers have no more."""


def estimate_checkpoint_bytes(learner: nn.Module) -> int:
    """Approximate size of a checkpoint: weights and optimizer moments."""
    weights = sum(t.numel() * t.element_size() for t in learner.state_dict().values())
    trained = sum(p.numel() * p.element_size() for p in learner.parameters() if p.requires_grad)
    return weights + MOMENTS * trained


def disk_space_warning(folder: Path, learner: nn.Module, *, existing: int) -> str:
    """A warning unless the disk has space for three checkpoints, of which `existing` exist."""
    each, free = estimate_checkpoint_bytes(learner), shutil.disk_usage(folder).free
    needed = max(1, COPIES - existing) * each
    if free >= needed:
        return ""
    return (
        f"{folder} has {format_bytes(free)} left, but the last checkpoint, the best and a new one "
        f"take about {format_bytes(each)} each. Make room, or choose another --save-dir. "
        f"Failed saves are retried."
    )


def format_bytes(size: int) -> str:
    """1.5 GiB, 20.0 MiB, 3.0 KiB."""
    for unit, name in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << unit:
            return f"{size / (1 << unit):.1f} {name}"
    return f"{size / 1024:.1f} KiB"
