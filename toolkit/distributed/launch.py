"""Start of distributed training: the processes of torchrun (RANK, WORLD_SIZE, LOCAL_RANK)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from toolkit.common.errors import ToolkitError
from toolkit.common.launcher import is_launched
from toolkit.distributed.device import configure_backend, select_device
from toolkit.distributed.rendezvous import open_store
from toolkit.distributed.watchdog import GRACE_SECONDS, HEARTBEAT_SECONDS, Watchdog
from toolkit.distributed.world import World

TIMEOUT_SECONDS = 1800.0
BACKENDS = {"cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}


def read_int_variable(name: str, default: int) -> int:
    """An integer variable of torchrun's environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise ToolkitError(
            f"the environment variable {name} must be a number, but is {text!r}. "
            f"torchrun sets it; unset it to train in one process."
        )
    return int(text)


@contextmanager
def launch(
    device_name: str = "auto",
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    folder: Path | None = None,
) -> Iterator[World]:
    """This process's world: a single process unless torchrun started it.

    Host tensors use gloo and those of GPUs NCCL or XCCL, so that the small all-reduce before each
    update does not wait for the device. If a rank waits for another for longer than
    `timeout_seconds`, all ranks are aborted with an error that names the stalled one, and their
    stacks are in `folder`.
    """
    rank, size = read_int_variable("RANK", 0), read_int_variable("WORLD_SIZE", 1)
    local_rank = read_int_variable("LOCAL_RANK", 0)
    device = select_device(device_name, local_rank)
    configure_backend(device)
    world = World(rank=rank, size=size, local_rank=local_rank, device=device)
    if dist.is_initialized() or (size == 1 and not is_launched()):
        yield world
        return
    # later than the watchdog, which names the stalled rank
    timeout = timedelta(seconds=timeout_seconds + 2 * GRACE_SECONDS + HEARTBEAT_SECONDS)
    store = open_store(rank, size, timeout)
    backend = BACKENDS.get(device.type, "gloo")
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    try:
        with Watchdog(world, store, timeout=timeout_seconds, folder=folder):
            yield world
    finally:
        dist.destroy_process_group()
