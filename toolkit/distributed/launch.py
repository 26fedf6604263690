"""Start of distributed training: the processes of torchrun (RANK, WORLD_SIZE, LOCAL_RANK)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from toolkit.common.errors import ToolkitError
from toolkit.common.system import is_launched
from toolkit.distributed.watchdog import GRACE_SECONDS, HEARTBEAT_SECONDS, Watchdog
from toolkit.distributed.world import World, configure_backend, select_device

TIMEOUT_SECONDS = 1800.0
BACKENDS = {"cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}


@contextmanager
def launch(
    device_name: str = "auto",
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    folder: Path | None = None,
) -> Iterator[World]:
    """This process's world: a single process unless torchrun started it.

    Host tensors use gloo and those of GPUs NCCL or XCCL, so that a host's sum does not wait for the
    device. If a rank waits longer than `timeout_seconds`, all are aborted with an error that names
    the stalled one, and their stacks are in `folder`.
    """
    defaults = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}
    rank, size, local_rank = (int(os.environ.get(name, it)) for name, it in defaults.items())
    device = select_device(device_name, local_rank)
    configure_backend(device)
    world = World(rank=rank, size=size, local_rank=local_rank, device=device)
    if dist.is_initialized() or (size == 1 and not is_launched()):
        yield world
        return
    # later than the watchdog, which names the stalled rank
    timeout = timedelta(seconds=timeout_seconds + 2 * GRACE_SECONDS + HEARTBEAT_SECONDS)
    found, _, _ = next(rendezvous("env://", rank, size, timeout=timeout))
    name = name_launch(found, size, timeout) if rank == 0 else ask_for_name(found, rank, timeout)
    store = PrefixStore(f"launch {name}", found)  # which only the ranks of this launch use
    backend = BACKENDS.get(device.type, "gloo")
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    try:
        with Watchdog(world, store, timeout=timeout_seconds, folder=folder):
            yield world
    finally:
        dist.destroy_process_group()


POLL_SECONDS = 0.02


def name_launch(store: Store, size: int, timeout: timedelta) -> str:
    """Rank 0: a new name, given to every rank that asks until all have confirmed it. They ask under
    random numbers, so that answers to earlier ranks do not matter.
    """
    name, missing = uuid4().hex, set(range(1, size))
    deadline = time.monotonic() + timeout.total_seconds()
    while missing:
        for rank in missing:
            if store.check([f"request {rank}"]):
                store.set(f"answer {store.get(f'request {rank}').decode()}", name)
        missing = {rank for rank in missing if not store.check([f"{name} {rank}"])}
        if time.monotonic() > deadline:
            raise ToolkitError(
                f"all {size} ranks must join, but {len(missing)} did not within "
                f"{timeout.total_seconds():.0f} s, such as rank {min(missing)}. Start torchrun on "
                f"every node, with the same --rdzv-endpoint."
            )
        time.sleep(POLL_SECONDS)
    return name


def ask_for_name(store: Store, rank: int, timeout: timedelta) -> str:
    """Another rank: the name that rank 0 gives."""
    request = uuid4().hex
    store.set(f"request {rank}", request)
    store.wait([f"answer {request}"], timeout)
    name: str = store.get(f"answer {request}").decode()
    store.set(f"{name} {rank}", "")
    return name
