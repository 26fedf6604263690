"""Worker processes of torch's DataLoader: listing them, and killing them where torch would wait."""

from __future__ import annotations

from contextlib import suppress
from traceback import walk_tb
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

SHUTDOWN_SECONDS = 5.0  # wait for a killed worker


def list_workers(loader: DataLoader[Any]) -> list[Any]:
    """The processes that `loader` has started."""
    return getattr(loader._iterator, "_workers", [])


def keep_unfinished(loader: DataLoader[Any], error: BaseException) -> None:
    """Store the iterator whose constructor raised `error`: only it knows its workers."""
    for frame, _ in walk_tb(error.__traceback__):
        unfinished = frame.f_locals.get("self")
        if isinstance(unfinished, _MultiProcessingDataLoaderIter):
            loader._iterator = unfinished


def kill_workers(loader: DataLoader[Any]) -> None:
    """Kill the workers; torch would wait for those that do not answer, possibly forever.

    torch keeps their process ids under the address of the iterator, and raises an error when one of
    them dies. The ids are removed first; otherwise, a later iterator at this address would fail.
    """
    iterator: Any = loader._iterator
    if loader.num_workers and iterator is not None:
        iterator._shutdown = True
        with suppress(ValueError):  # not listed
            torch._C._remove_worker_pids(id(iterator))
    for worker in list_workers(loader):
        worker.kill()
    for worker in list_workers(loader):
        worker.join(SHUTDOWN_SECONDS)
    loader._iterator = None
