"""SIGTERM, SIGINT and SIGUSR1 stop training at the next update, with a checkpoint.

The command then exits with 128 + the signal's number (143, 130, 138), as shells do. A second
signal of the same kind terminates immediately, unless it arrives within a second.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from toolkit.common.system import REPEAT_SECONDS

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


@contextmanager
def listen_for_signals(request_stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `request_stop` at the first signal in the block; yields the numbers received so far.

    Only the main thread can handle signals; in others this does nothing.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN)
        request_stop()
        try:  # wait here: a second signal must act even if the main thread then hangs in C code
            time.sleep(REPEAT_SECONDS)
        finally:
            signal.signal(number, before[signal.Signals(number)])

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
