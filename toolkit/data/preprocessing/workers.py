"""Worker processes of toolkit-preprocess; with one worker, the work happens in this process."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

POLL_SECONDS = 0.05
BYTES, TOKENS, STOP = range(3)
PREFETCH = 2
"""Items per process that `imap` reads before the first of them is needed."""
Counters: TypeAlias = "SynchronizedArray[int]"
"""Bytes, tokens and the stop flag, shared by all processes."""
Item = TypeVar("Item")
Result = TypeVar("Result")
ProgressCallback = Callable[[int, int], None]
"""Called with the bytes read and the tokens written since the last call."""

_counters: Counters | None = None  # in a worker
_callback: ProgressCallback | None = None  # without workers: the caller's
_tokenizers: dict[Path, Tokenizer] = {}


class WorkerPool:
    """W processes on W cores."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._counters: Counters | None = None

    def __enter__(self) -> WorkerPool:
        _tokenizers.clear()  # those of earlier data, which processes would inherit
        if self.workers > 1:
            method = "fork" if sys.platform == "linux" else "spawn"
            context = multiprocessing.get_context(method)
            self._counters = context.Array("q", 3)
            self._pool = ProcessPoolExecutor(
                self.workers, context, initializer=_start_worker, initargs=(self._counters,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None and self._counters is not None:
            self._counters[STOP] = error is not None
            self._pool.shutdown(wait=True, cancel_futures=True)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        size: Callable[[Item], int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> list[Result]:
        """The function's results, in the order of the items; items of large `size` start first.

        `report_progress`, which the function calls, calls `on_progress`.
        """
        if self._pool is None:
            global _callback
            _callback = on_progress
            try:
                return [function(item) for item in items]
            finally:
                _callback = None
        order = sorted(range(len(items)), key=lambda i: -size(items[i]) if size else 0)
        with _report_worker_death():
            futures = {i: self._pool.submit(function, items[i]) for i in order}
            try:
                if on_progress is not None:
                    self._watch(set(futures.values()), on_progress)
                return [futures[i].result() for i in range(len(items))]
            finally:
                for future in futures.values():
                    future.cancel()

    def imap(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Each item with the function's result, in order; few are in memory at a time."""
        if (pool := self._pool) is None:
            yield from ((item, function(item)) for item in items)
            return
        with _report_worker_death():
            submitted = ((item, pool.submit(function, item)) for item in items)
            waiting = deque(islice(submitted, PREFETCH * self.workers))
            try:
                while waiting:
                    item, future = waiting.popleft()
                    result = future.result()
                    waiting.extend(islice(submitted, 1))
                    yield item, result
            finally:
                for _, future in waiting:
                    future.cancel()

    def _watch(self, waiting: set[Future[Result]], on_progress: ProgressCallback) -> None:
        """Report progress until all are done or one has failed; then the others stop early."""
        assert self._counters is not None, "there are workers"
        seen = [0, 0]
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS)
            for future in done:
                if future.exception():
                    self._counters[STOP] = 1
                    future.result()
            now = self._counters[:]
            on_progress(now[BYTES] - seen[BYTES], now[TOKENS] - seen[TOKENS])
            seen = now


@contextmanager
def _report_worker_death() -> Iterator[None]:
    """Turn a killed worker, noticed at its result or at the next submission, into an error."""
    try:
        yield
    except BrokenProcessPool as error:
        raise ToolkitError(
            "a worker process was killed, most often for lack of memory. Use fewer --workers."
        ) from error


def report_progress(read_bytes: int, tokens: int) -> None:
    """Called by a function that a pool runs; raises if another item has failed."""
    if _callback is not None:
        _callback(read_bytes, tokens)
    if _counters is None:
        return
    if _counters[STOP]:
        raise InterruptedError("another part has failed")
    with _counters.get_lock():
        _counters[BYTES] += read_bytes
        _counters[TOKENS] += tokens


def _start_worker(counters: Counters) -> None:
    """In a worker process, which ends when the main process has, even if that was killed."""
    global _counters
    _counters, parent = counters, multiprocessing.parent_process()
    assert parent is not None, "this is a worker process"

    def exit_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def share_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Make this the folder's tokenizer, here and in the worker processes forked from now on."""
    _tokenizers.clear()
    _tokenizers[folder] = tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    """The folder's tokenizer, loaded at most once in each process."""
    if folder not in _tokenizers:
        share_tokenizer(Tokenizer.load(folder), folder)
    return _tokenizers[folder]
