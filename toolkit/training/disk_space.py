"""Whether a disk has room for the checkpoints of a run, asked before the first one is due."""

from __future__ import annotations

import shutil
from pathlib import Path

from torch import nn

COPIES = 3
"""The last checkpoint, the best one, and the one being written."""
MOMENTS = 2
"""Tensors of an optimizer for each parameter; Adam's, since most have no more."""


def estimate_checkpoint_bytes(learner: nn.Module) -> int:
    """About what a checkpoint will take: weights, and the optimizer's moments beside them."""
    weights = sum(t.numel() * t.element_size() for t in learner.state_dict().values())
    moved = sum(p.numel() * p.element_size() for p in learner.parameters() if p.requires_grad)
    return weights + MOMENTS * moved


def disk_space_warning(folder: Path, learner: nn.Module, *, existing: int) -> str:
    """What to tell where the disk has no room for so many; empty where it has.

    `there` is the number of checkpoints in the folder already.
    """
    each, free = estimate_checkpoint_bytes(learner), shutil.disk_usage(folder).free
    needed = max(1, COPIES - existing) * each
    if free >= needed:
        return ""
    return (
        f"{folder} has {format_bytes(free)} left, but the last checkpoint, the best and a new one "
        "take "
        f"about {format_bytes(each)} each. Make room, or choose another --save-dir; saves that "
        "fail "
        f"are tried again."
    )


def format_bytes(size: int) -> str:
    """1.5 GiB, 20.0 MiB, 3.0 KiB."""
    for unit, name in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << unit:
            return f"{size / (1 << unit):.1f} {name}"
    return f"{size / 1024:.1f} KiB"
