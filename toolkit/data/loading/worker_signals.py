"""Signals of data workers: those that they ignore, and their deaths and timeouts in the trainer."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

CHECK_SECONDS = 5
"""Time between two looks at the workers while a batch is waited for."""


def initialize_worker(worker: int) -> None:
    """Ignore signals, and exit when the trainer is gone.

    Ctrl-C and Slurm signal the whole process group, but the trainer still needs batches. A worker
    whose trainer was killed would wait forever for a reader of the batches that it sends.
    """
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_trainer, daemon=True).start()


def _end_with_trainer() -> None:
    trainer = multiprocessing.parent_process()
    if trainer is not None:
        trainer.join()
        os._exit(1)


@contextmanager
def watch_workers(seconds: int, is_any_dead: Callable[[], bool]) -> Iterator[None]:
    """Raise DataLoader's errors for timeouts and dead workers in a block that waits for a batch.

    DataLoader waits `seconds` (0: no limit) for the first byte of a batch, and without a limit for
    the others, which a worker may be stopped before it has sent. And the error that torch raises
    when a worker dies is lost if the signal interrupts a finalizer. Only the main thread can set an
    alarm.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_REAL)[0]:  # another alarm is set
        yield
        return
    checks, last = count(1), math.ceil(seconds / CHECK_SECONDS)
    interval = seconds / last if last else CHECK_SECONDS

    def check(number: int, frame: FrameType | None) -> None:
        if is_any_dead():
            raise RuntimeError("DataLoader worker exited unexpectedly")
        if next(checks) == last:
            raise RuntimeError("DataLoader timed out")

    handler = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


class WorkerDeaths:
    """Delays the error of a dead data worker until a batch is waited for.

    torch raises it in its SIGCHLD handler, wherever the program is. This handler keeps the error,
    and raises it at once only while a batch is waited for, which may never arrive.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._pending: RuntimeError | None = None
        self._torch_handler: Any = None

    def install_handler(self) -> None:
        """Wrap torch's handler, which it installs with its first worker."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGCHLD)
        if handler != self._handle and callable(handler):
            self._torch_handler = handler
            signal.signal(signal.SIGCHLD, self._handle)

    @contextmanager
    def raise_while_waiting(self, is_relevant: Callable[[], bool]) -> Iterator[None]:
        """Raise the error of a death inside, or of an earlier one if `is_relevant` says so."""
        self._waiting = True
        try:
            if self._pending and is_relevant():
                pending, self._pending = self._pending, None
                raise pending
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._torch_handler(number, frame)
        except RuntimeError as error:
            if self._waiting:
                raise
            self._pending = error


WORKER_DEATHS = WorkerDeaths()
