"""The death of a data worker, told when a batch is waited for and not in the midst of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Deaths:
    """torch raises from its handler of SIGCHLD, wherever the program is; this one keeps the error.

    While a batch is waited for the error is raised at once, since none may come any more.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._kept: RuntimeError | None = None
        self._torchs: Any = None

    def listen(self) -> None:
        """Stand before torch's handler, which it installs with its first worker."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGCHLD)
        if handler != self._heard and callable(handler):
            self._torchs = handler
            signal.signal(signal.SIGCHLD, self._heard)

    @contextmanager
    def told(self, mine: Callable[[], bool]) -> Iterator[None]:
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


DEATHS = Deaths()
