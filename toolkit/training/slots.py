"""Where the runs of a sweep may train at the same time: GPUs, or shares of the CPU's threads."""

from __future__ import annotations

import os

import torch

from toolkit.common.processes import cores

VISIBLE = "CUDA_VISIBLE_DEVICES"


def slots_of(jobs: int, device: str) -> list[dict[str, str]]:
    """Environment variables of each slot; `jobs` 0 is one a GPU, or one slot without GPUs."""
    gpus = [] if device == "cpu" else visible_gpus()
    if gpus:
        return [{VISIBLE: gpus[slot % len(gpus)]} for slot in range(jobs or len(gpus))]
    if jobs <= 1:
        return [{}]
    threads = max(1, cores() // jobs)
    return [{"OMP_NUM_THREADS": str(threads)} for _ in range(jobs)]


def visible_gpus() -> list[str]:
    """Their names for CUDA_VISIBLE_DEVICES; numbers or, where that was set so, UUIDs."""
    named = os.environ.get(VISIBLE, "").split(",")
    count = torch.cuda.device_count()
    return named[:count] if named != [""] else [str(index) for index in range(count)]
