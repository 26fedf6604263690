"""Worker processes of toolkit-preprocess; with one worker, the work happens in this process."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import TypeVar

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer

PREFETCH = 2
"""Items per process that `imap` reads before the first of them is needed."""
Item = TypeVar("Item")
Result = TypeVar("Result")

_tokenizers: dict[Path, Tokenizer] = {}


class WorkerPool:
    """W processes on W cores."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> WorkerPool:
        _tokenizers.clear()  # those of earlier data, which processes would inherit
        if self.workers > 1:
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, initializer=_end_with_parent)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def imap(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Each item with the function's result, in order; few are in memory at a time."""
        if (pool := self._pool) is None:
            yield from ((item, function(item)) for item in items)
            return
        submitted = ((item, pool.submit(function, item)) for item in items)
        waiting = deque[tuple[Item, Future[Result]]]()
        try:
            waiting.extend(islice(submitted, PREFETCH * self.workers))
            while waiting:
                item, future = waiting.popleft()
                result = future.result()
                waiting.extend(islice(submitted, 1))
                yield item, result
        except BrokenProcessPool as error:
            raise ToolkitError(
                "a worker process was killed, most often for lack of memory. Use fewer --workers."
            ) from error
        finally:
            for _, future in waiting:
                future.cancel()


def _end_with_parent() -> None:
    """End a worker process when the main process has, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is a worker process"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def share_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Make this the folder's tokenizer, here and in the worker processes forked from now on."""
    _tokenizers.clear()
    _tokenizers[folder] = tokenizer


def shared_tokenizer(folder: Path) -> Tokenizer:
    """The folder's tokenizer, loaded at most once in each process."""
    if folder not in _tokenizers:
        share_tokenizer(Tokenizer.load(folder), folder)
    return _tokenizers[folder]
