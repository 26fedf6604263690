"""The store that the ranks of one launch share, without the keys of earlier launches.

When torchrun restarts its ranks, the store and all keys of the ranks that have ended remain, and
the restart counts of its nodes differ (https://github.com/pytorch/pytorch/issues/135712). Ranks
that read an old key would wait for a process that no longer exists.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from toolkit.common.errors import ToolkitError

POLL_SECONDS = 0.02


def open_store(rank: int, size: int, timeout: timedelta) -> PrefixStore:
    """The store of torchrun's rendezvous, under a name that only the ranks of this launch use."""
    store, _, _ = next(rendezvous("env://", rank, size, timeout=timeout))
    name = name_launch(store, size, timeout) if rank == 0 else ask_for_name(store, rank, timeout)
    return PrefixStore(f"launch {name}", store)


def name_launch(store: Store, size: int, timeout: timedelta) -> str:
    """Rank 0: a new name, given to every rank that asks until all have confirmed it.

    A rank asks under a random number, so that answers to earlier ranks do not matter.
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
