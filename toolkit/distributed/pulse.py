"""What a rank is doing, noted so cheaply that it can be noted always; the watchdog reads it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

PACKAGE = Path(__file__).parents[1]
UNTOLD = ("pulse.py", "watchdog.py")


class Pulse:
    """How many exchanges with other ranks the main thread has entered, and in which it waits."""

    def __init__(self) -> None:
        self.entered = 0
        self.exchange = ""
        """The one it is in, or was when an exception left it; empty at work of its own."""
        self.since = monotonic()

    @contextmanager
    def waiting(self, exchange: str) -> Iterator[None]:
        """Inside, this rank may wait for others. An exception leaves it marked as waiting."""
        self.entered += 1
        self.exchange, self.since = exchange, monotonic()
        yield
        self.exchange, self.since = "", monotonic()

    @property
    def waited_seconds(self) -> float:
        """For how long it has been in its present exchange; 0 at work of its own."""
        since, exchange = self.since, self.exchange
        return monotonic() - since if exchange else 0.0


def whereabouts() -> str:
    """The innermost lines of the main thread: its own, and the toolkit's that led there."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines: list[str] = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if (not lines or PACKAGE in path.parents) and path.name not in UNTOLD:
            lines.append(f"{frame.f_code.co_name} ({path.name}:{frame.f_lineno})")
        frame = frame.f_back
    return " in ".join(lines[:3])
