"""Heartbeats: the state of every rank, and the rank that blocks the others."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from toolkit.common.system import is_running

PACKAGE = Path(__file__).parents[1]
OMITTED_FILES = ("heartbeat.py", "watchdog.py")
ALIVE, DONE = "", "done"


class CollectiveTracker:
    """Counts the collectives that the main thread has entered, and names the current one."""

    def __init__(self) -> None:
        self.entered = 0
        self.current = ""
        """The current collective, or the one that raised; empty outside of collectives."""
        self.since = monotonic()

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Mark this rank as waiting for others; it stays marked after an exception."""
        self.entered += 1
        self.current, self.since = name, monotonic()
        yield
        self.current, self.since = "", monotonic()

    @property
    def waited_seconds(self) -> float:
        """Time in the current collective; 0 outside of collectives."""
        since, current = self.since, self.current
        return monotonic() - since if current else 0.0


def main_thread_location() -> str:
    """The main thread's innermost line of code, and the lines of the toolkit that called it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines: list[str] = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if (not lines or PACKAGE in path.parents) and path.name not in OMITTED_FILES:
            lines.append(f"{frame.f_code.co_name} ({path.name}:{frame.f_lineno})")
        frame = frame.f_back
    return " in ".join(lines[:3])


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """The state of a rank, published once a second."""

    rank: int
    number: int = 0
    entered: int = 0
    """Collectives that its main thread has entered."""
    collective: str = ""
    """The collective it waits in; empty outside of collectives."""
    waited_seconds: float = 0.0
    location: str = ""
    """Line of code of its main thread."""
    state: str = ALIVE
    """ALIVE, DONE, or the error it failed with."""
    host: str = ""
    pid: int = 0
    silent_seconds: float = 0.0
    """Time since its latest heartbeat, by the clock of the rank that reads it."""


@dataclass(frozen=True)
class RankFailure:
    """Why the ranks cannot continue."""

    kind: str
    """died, failed, silent or stalled."""
    text: str


def find_failure(heartbeats: Sequence[Heartbeat], rank: int, timeout: float) -> RankFailure | None:
    """The failure that `rank` sees; None if all ranks are well."""
    mine, others = heartbeats[rank], [it for it in heartbeats if it.rank != rank]
    alive = [it for it in others if it.state == ALIVE]
    for it in alive:
        if it.host == mine.host and not is_running(it.pid):
            return RankFailure(
                "died",
                f"rank {it.rank} died: its process {it.pid} is gone, possibly killed because "
                f"memory ran out. It was last in {it.location}.",
            )
    for it in others:
        if it.state not in (ALIVE, DONE):
            return RankFailure("failed", f"rank {it.rank} failed with {it.state.rstrip('.')}.")
    for it in alive:
        if it.silent_seconds > timeout:
            return RankFailure(
                "silent",
                f"rank {it.rank} has sent no heartbeat for {it.silent_seconds:.0f} s. It was last "
                f"in {it.location}.",
            )
    return find_stalled_rank(heartbeats, timeout)


def find_stalled_rank(heartbeats: Sequence[Heartbeat], timeout: float) -> RankFailure | None:
    """The rank with the fewest collectives, if another has waited longer than the timeout."""
    longest = max(heartbeats, key=lambda it: it.waited_seconds)
    if longest.waited_seconds <= timeout:
        return None
    waited = (
        f"rank {longest.rank} has waited {longest.waited_seconds:.0f} s in {longest.collective} "
        f"({longest.location})"
    )
    last = min(heartbeats, key=lambda it: it.entered)
    if last.entered == longest.entered:
        return RankFailure("stalled", f"{waited}, as all ranks do: the network may be at fault.")
    doing = "has finished" if last.state == DONE else f"is in {last.location}"
    return RankFailure("stalled", f"rank {last.rank} is stalled: {waited}; it {doing}.")


def process_namespace() -> str:
    """An id of the process table of this process: machine, boot and container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
