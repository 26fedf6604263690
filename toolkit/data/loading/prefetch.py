"""Batches made to order, ahead of the trainer and by other processes if wanted."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from toolkit.common.errors import ToolkitError
from toolkit.common.system import signal_name
from toolkit.data.loading.examples import Examples


class WorkerDeaths:
    """torch raises from its handler of SIGCHLD, wherever the program is; this one keeps the error.

    While a batch is waited for the error is raised at once, since none may come any more.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._kept: RuntimeError | None = None
        self._torchs: Any = None

    def install_handler(self) -> None:
        """Stand before torch's handler, which it installs with its first worker."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGCHLD)
        if handler != self._heard and callable(handler):
            self._torchs = handler
            signal.signal(signal.SIGCHLD, self._heard)

    @contextmanager
    def raise_while_waiting(self, mine: Callable[[], bool]) -> Iterator[None]:
        """Raise the error of a death inside, also of an earlier one that `mine` says is ours."""
        self._waiting = True
        try:
            if self._kept and mine():
                kept, self._kept = self._kept, None
                raise kept
            yield
        finally:
            self._waiting = False

    def _heard(self, number: int, frame: FrameType | None) -> None:
        try:
            self._torchs(number, frame)
        except RuntimeError as error:
            if self._waiting:
                raise
            self._kept = error


WORKER_DEATHS = WorkerDeaths()


Numbers = npt.NDArray[np.int64]
AHEAD = 4  # batches that each worker prepares ahead
SHOWN = 8  # examples that an error names
PATIENCE_SECONDS = 5.0  # until a worker that was told to end is killed
GONE = re.compile(r"DataLoader worker .*(is killed|exited unexpectedly)")
LATE = re.compile(r"DataLoader timed out")


class BatchRequest(NamedTuple):
    """What a worker is asked for; no ids stand for an idle rank's batch."""

    ids: Numbers
    epoch: int | None


class ExampleError(RuntimeError):
    """Collating an example failed by somebody's bug; says which example of which data."""


class _Refusal(NamedTuple):
    """A user's error on its way from a worker to the trainer."""

    message: str


class _Collated(Dataset[Any]):
    """Answers a numbered order with its batch; `at_work` says what each worker is at."""

    def __init__(self, examples: Examples, name: str, at_work: Tensor) -> None:
        self._examples, self._name, self._at_work = examples, name, at_work

    def __getitem__(self, numbered: tuple[int, BatchRequest]) -> Any:
        number, order = numbered
        worker = get_worker_info()
        if worker is not None:
            self._at_work[worker.id] = number
        try:
            return self._examples.collate(order.ids, order.epoch)
        except ToolkitError as error:
            return _Refusal(str(error))
        except Exception as error:
            raise ExampleError(
                f"{self._culprit(order)} could not be made a batch of: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _culprit(self, order: BatchRequest) -> str:
        """The first example that fails by itself too; the batch where none does."""
        for number in order.ids:
            try:
                self._examples.collate(np.array([number]), order.epoch)
            except Exception:
                return f"example {number} of {self._name}"
        return format_ids(order.ids, self._name)


class _Orders:
    """The orders of the pass at hand, numbered; DataLoader asks for them anew with every pass."""

    def __init__(self) -> None:
        self.make: Callable[[], Iterable[BatchRequest]] = tuple
        self.open: dict[int, BatchRequest] = {}
        """Those given out and not yet answered."""

    def __iter__(self) -> Iterator[tuple[int, BatchRequest]]:
        self.open.clear()
        for number, order in enumerate(self.make()):
            self.open[number] = order
            yield number, order


class BatchPrefetcher:
    """Answers orders in turn, with the batches of `examples`, which errors call `name`.

    A worker that dies, or is silent for `timeout_seconds`, ends the pass with an error that says
    which examples it was at.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        name: str,
        workers: int = 0,
        timeout_seconds: int = 0,
        pin_memory: bool = False,
    ) -> None:
        self._name, self._timeout_seconds = name, timeout_seconds
        self._at_work = torch.full((workers,), -1).share_memory_()
        self._orders = _Orders()
        self._collated = _Collated(examples, name, self._at_work)
        self._batches: DataLoader[Any] = DataLoader(
            self._collated,
            batch_size=None,
            collate_fn=_as_it_is,
            sampler=self._orders,
            num_workers=workers,
            prefetch_factor=AHEAD if workers else None,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_signals_to_the_trainer,
            timeout=timeout_seconds if workers else 0,
            pin_memory=pin_memory,
            generator=torch.Generator(),  # its own, so that the model's is left alone
        )

    def prefetch(self, make: Callable[[], Iterable[BatchRequest]]) -> Iterator[Any]:
        """The batches of the orders that `make` gives."""
        self._orders.make = make
        for number, batch in enumerate(self._guarded()):
            self._orders.open.pop(number)
            yield raise_if_refused(batch)

    def collate(self, ids: Numbers, epoch: int | None) -> Any:
        """One batch, made here and now."""
        return raise_if_refused(self._collated[(-1, BatchRequest(ids, epoch))])

    def close(self) -> None:
        """End the workers, by force where need be; a later pass starts new ones."""
        iterator: Any = self._batches._iterator
        if iterator is not None and self._batches.num_workers > 0:
            iterator._shutdown_workers()
            for worker in iterator._workers:
                if worker.is_alive():
                    worker.kill()
                    worker.join(PATIENCE_SECONDS)
        self._batches._iterator = None

    def _guarded(self) -> Iterator[Any]:
        """The answers; a worker that is gone or late becomes an error that says what to do."""
        batches = iter(self._batches)
        if self._batches.num_workers:
            WORKER_DEATHS.install_handler()
        while True:
            try:
                with WORKER_DEATHS.raise_while_waiting(lambda: bool(self._dead())):
                    batch = next(batches)
            except StopIteration:
                return
            except ExampleError:
                raise
            except RuntimeError as error:
                if GONE.search(str(error)):
                    self._tell_gone(error)
                if LATE.search(str(error)):
                    self._tell_late(error)
                raise
            yield batch

    def _dead(self) -> list[int]:
        """Numbers of the workers that have ended."""
        workers = getattr(self._batches._iterator, "_workers", [])
        return [number for number, worker in enumerate(workers) if not worker.is_alive()]

    def _tell_gone(self, error: RuntimeError) -> NoReturn:
        dead, iterator = self._dead(), self._batches._iterator
        codes = [getattr(iterator, "_workers", [])[number].exitcode for number in dead]
        how = " and ".join(map(_ending, codes)) or "ended"
        text = (
            f"every data worker must live to the end, but one {how}; it was at {self._work(dead)}. "
            f"Use fewer --num-workers if memory is short, or 0 to see the error itself."
        )
        self.close()
        raise ToolkitError(text) from error

    def _tell_late(self, error: RuntimeError) -> NoReturn:
        first = next(iter(self._orders.open), -1)
        owners = [w for w, number in enumerate(self._at_work.tolist()) if number == first]
        text = (
            f"a batch must be ready within data.timeout_seconds, but after "
            f"{self._timeout_seconds} seconds a data worker is still at {self._work(owners)}. See "
            f"what holds it up (a file system that hangs?), or raise --data.timeout-seconds."
        )
        self.close()
        raise ToolkitError(text) from error

    def _work(self, workers: list[int]) -> str:
        """What these workers were at; the oldest order where that is not known."""
        at, waiting = [int(self._at_work[worker]) for worker in workers], self._orders.open
        numbers = [n for n in at if n in waiting] or list(waiting)[:1]
        return " and ".join(format_ids(waiting[n].ids, self._name) for n in numbers) or self._name


def format_ids(ids: Numbers, name: str) -> str:
    """The first few examples of a batch, and how many more there are."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"examples {', '.join(map(str, ids[:SHOWN]))}{more} of {name}"


def raise_if_refused(batch: Any) -> Any:
    if isinstance(batch, _Refusal):
        raise ToolkitError(batch.message)
    return batch


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"ended itself with exit code {code}"


def _as_it_is(batch: Any) -> Any:
    return batch


def _leave_signals_to_the_trainer(worker: int) -> None:
    """Ctrl-C and Slurm signal the whole process group; the trainer still needs its next batches.

    A worker ends when the trainer tells it to, or is gone.
    """
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
