"""Batches on request, prepared ahead of the trainer, in worker processes if there are any."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import RawArray
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from toolkit.common.arrays import IntArray
from toolkit.common.enumeration import join_first
from toolkit.common.errors import ToolkitError, first_line
from toolkit.common.system import can_share_locks, signal_name
from toolkit.data.loading.array_batch import ArrayBatch
from toolkit.data.loading.examples import Batch, BatchSource
from toolkit.data.loading.worker_processes import keep_unfinished, kill_workers, list_workers
from toolkit.data.loading.worker_signals import WORKER_DEATHS, initialize_worker, watch_workers

PREFETCHED_BATCHES = 4  # per worker
LISTED_EXAMPLES = 8  # examples that an error lists
WORKER_DIED = re.compile(r"DataLoader worker .*(is killed|exited unexpectedly)")
NO_THREAD = "can't start new thread"
TIMED_OUT = re.compile(r"DataLoader timed out")
T = TypeVar("T")
SharedInts: TypeAlias = "ctypes.Array[ctypes.c_int64]"

log = logging.getLogger(__name__)


class BatchRequest(NamedTuple):
    """The examples of a batch; none for the batch of an idle rank."""

    ids: IntArray
    epoch: int | None


class ExampleError(RuntimeError):
    """Collating an example failed because of a bug; names the example and its data."""


class _UserError(NamedTuple):
    """A user's error on its way from a worker to the trainer."""

    message: str


class _BatchDataset(Dataset["Batch | ArrayBatch[Batch] | _UserError"], Generic[Batch]):
    """Collates numbered requests; `current` holds the request number of each worker."""

    def __init__(self, examples: BatchSource[Batch], name: str, current: SharedInts) -> None:
        self._examples, self._name, self._current = examples, name, current

    def __getitem__(
        self, numbered: tuple[int, BatchRequest]
    ) -> Batch | ArrayBatch[Batch] | _UserError:
        number, request = numbered
        worker = get_worker_info()
        if worker is not None:
            self._current[worker.id] = number
        try:
            batch = self._examples.collate(request.ids, request.epoch)
            return batch if worker is None else ArrayBatch(batch)
        except ToolkitError as error:
            return _UserError(str(error))
        except Exception as error:
            raise ExampleError(
                f"cannot collate {self._find_culprit(request)}: {type(error).__name__}: {error}"
            ) from error

    def _find_culprit(self, request: BatchRequest) -> str:
        """The first example that also fails alone; otherwise the whole batch."""
        for number in request.ids:
            try:
                self._examples.collate(np.array([number]), request.epoch)
            except Exception:
                return f"example {number} of {self._name}"
        return format_ids(request.ids, self._name)


class _Requests:
    """The numbered requests of the current pass; DataLoader iterates once per pass."""

    def __init__(self) -> None:
        self.make: Callable[[], Iterable[BatchRequest]] = tuple
        self.pending: dict[int, BatchRequest] = {}
        """Requests that have not been answered yet."""

    def __iter__(self) -> Iterator[tuple[int, BatchRequest]]:
        for number, request in enumerate(self.make()):
            self.pending[number] = request
            yield number, request


class BatchPrefetcher(Generic[Batch]):
    """Answers requests in order with batches of `examples`, which errors call `name`.

    A worker that dies, or does not answer for `timeout_seconds`, ends the pass with an error that
    names the examples it was collating.
    """

    def __init__(
        self,
        examples: BatchSource[Batch],
        *,
        name: str,
        workers: int = 0,
        timeout_seconds: int = 0,
        pin_memory: bool = False,
    ) -> None:
        self._name, self._timeout_seconds = name, timeout_seconds
        if workers and not can_share_locks(workers + 1):
            log.warning(
                "Batches are prepared without data workers, which require space in /dev/shm. Start "
                "the container with --shm-size 64m or more, or set --num-workers 0."
            )
            workers = 0
        self._current = RawArray("q", [-1] * workers) if workers else (ctypes.c_int64 * 0)()
        self._requests = _Requests()
        self._dataset = _BatchDataset(examples, name, self._current)
        self._loader: DataLoader[Batch | ArrayBatch[Batch] | _UserError] = DataLoader(
            self._dataset,
            batch_size=None,
            collate_fn=_return_unchanged,
            sampler=self._requests,
            num_workers=workers,
            prefetch_factor=PREFETCHED_BATCHES if workers else None,
            persistent_workers=workers > 0,
            worker_init_fn=initialize_worker,
            timeout=timeout_seconds if workers else 0,
            pin_memory=pin_memory,
            generator=torch.Generator(),  # a separate one, so that the model's is left alone
        )

    def prefetch(self, make_requests: Callable[[], Iterable[BatchRequest]]) -> Iterator[Batch]:
        """The batches of these requests, in order."""
        self._requests.make = make_requests
        self._requests.pending.clear()
        for number, batch in enumerate(self._iterate()):
            self._requests.pending.pop(number)
            yield _raise_if_error(batch)

    def collate(self, ids: IntArray, epoch: int | None) -> Batch:
        """One batch, collated in this process."""
        return _raise_if_error(self._dataset[(-1, BatchRequest(ids, epoch))])

    def close(self) -> None:
        """Stop the workers, by force if necessary; a later pass starts new ones."""
        iterator: Any = self._loader._iterator
        if iterator is not None and self._loader.num_workers > 0:
            iterator._shutdown_workers()
        kill_workers(self._loader)

    def _iterate(self) -> Iterator[Batch | ArrayBatch[Batch] | _UserError]:
        """The batches; a dead or stalled worker becomes an error that says what to do."""
        batches = self._start_pass()
        while True:
            try:
                with self._describe_failures():
                    batch = next(batches)
            except StopIteration:
                return
            yield batch

    def _start_pass(self) -> Iterator[Batch | ArrayBatch[Batch] | _UserError]:
        """An iterator over the batches; the first starts the workers, later ones wait for them."""
        with self._describe_failures():
            batches = self._make_iterator()
            if self._loader.num_workers:
                WORKER_DEATHS.install_handler()
            return batches

    def _make_iterator(self) -> Iterator[Batch | ArrayBatch[Batch] | _UserError]:
        """torch's iterator; if its constructor fails, the workers that it started are killed."""
        is_first = self._loader._iterator is None
        try:
            return iter(self._loader)
        except BaseException as error:
            if is_first:
                keep_unfinished(self._loader, error)
                if not WORKER_DIED.search(str(error)):
                    kill_workers(self._loader)
                if isinstance(error, OSError | MemoryError) or NO_THREAD in str(error):
                    self._raise_not_started(error)
            raise

    @contextmanager
    def _describe_failures(self) -> Iterator[None]:
        """Wait for the workers in this block; their failures become errors for the user."""
        try:
            with (
                WORKER_DEATHS.raise_while_waiting(self._is_any_dead),
                watch_workers(int(self._loader.timeout), self._is_any_dead),
            ):
                yield
        except ExampleError:
            raise
        except RuntimeError as error:
            if WORKER_DIED.search(str(error)):
                self._raise_died(error)
            if TIMED_OUT.search(str(error)):
                self._raise_timed_out(error)
            raise

    def _is_any_dead(self) -> bool:
        return bool(self._dead_workers())

    def _dead_workers(self) -> list[int]:
        workers = list_workers(self._loader)
        return [number for number, worker in enumerate(workers) if not worker.is_alive()]

    def _raise_not_started(self, error: BaseException) -> NoReturn:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise ToolkitError(
            f"cannot start {self._loader.num_workers} data workers: {reason}. Use fewer "
            f"--num-workers, or raise the limits that ulimit -a shows."
        ) from error

    def _raise_died(self, error: RuntimeError) -> NoReturn:
        dead = self._dead_workers()
        codes = [list_workers(self._loader)[number].exitcode for number in dead]
        endings = " and ".join(_describe_exit(code) for code in codes)
        message = (
            f"a data worker {endings or 'ended'} while collating {self._describe_work(dead)}. Use "
            f"fewer --num-workers if memory is short, or 0 to see the error itself."
        )
        kill_workers(self._loader)
        raise ToolkitError(message) from error

    def _raise_timed_out(self, error: RuntimeError) -> NoReturn:
        oldest = next(iter(self._requests.pending), -1)
        stalled = [w for w, number in enumerate(self._current) if number == oldest]
        message = (
            f"a data worker has not answered within data.timeout_seconds "
            f"({self._timeout_seconds}); it is collating {self._describe_work(stalled)}. Find out "
            f"what holds it up (a file system that hangs?), or raise --data.timeout-seconds."
        )
        kill_workers(self._loader)
        raise ToolkitError(message) from error

    def _describe_work(self, workers: list[int]) -> str:
        """The examples that these workers were collating; of the oldest request if unknown."""
        pending = self._requests.pending
        current = [int(self._current[worker]) for worker in workers]
        numbers = [n for n in current if n in pending] or list(pending)[:1]
        return " and ".join(format_ids(pending[n].ids, self._name) for n in numbers) or self._name


def format_ids(ids: IntArray, name: str) -> str:
    """The first few examples of a batch, and how many more there are."""
    return f"examples {join_first(ids.tolist(), LISTED_EXAMPLES)} of {name}"


def _raise_if_error(batch: Batch | ArrayBatch[Batch] | _UserError) -> Batch:
    if isinstance(batch, _UserError):
        raise ToolkitError(batch.message)
    return batch.unpack() if isinstance(batch, ArrayBatch) else batch


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"exited with code {code}"


def _return_unchanged(batch: T) -> T:
    return batch
