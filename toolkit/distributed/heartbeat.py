"""What a rank is doing, noted so cheaply that it can be noted always; the watchdog reads it."""

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


class CollectiveTracker:
    """How many exchanges with other ranks the main thread has entered, and in which it waits."""

    def __init__(self) -> None:
        self.entered = 0
        self.current = ""
        """The one it is in, or was when an exception left it; empty at work of its own."""
        self.since = monotonic()

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Inside, this rank may wait for others. An exception leaves it marked as waiting."""
        self.entered += 1
        self.current, self.since = name, monotonic()
        yield
        self.current, self.since = "", monotonic()

    @property
    def waited_seconds(self) -> float:
        """For how long it has been in its present exchange; 0 at work of its own."""
        since, exchange = self.since, self.current
        return monotonic() - since if exchange else 0.0


def main_thread_location() -> str:
    """The innermost lines of the main thread: its own, and the toolkit's that led there."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines: list[str] = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if (not lines or PACKAGE in path.parents) and path.name not in OMITTED_FILES:
            lines.append(f"{frame.f_code.co_name} ({path.name}:{frame.f_lineno})")
        frame = frame.f_back
    return " in ".join(lines[:3])


ALIVE, DONE = "", "done"


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """What a rank tells of itself, once a second."""

    rank: int
    number: int = 0
    """Number of this beat."""
    entered: int = 0
    """Exchanges with other ranks that its main thread has entered."""
    collective: str = ""
    """The one it waits in; empty where it is at work of its own."""
    waited_seconds: float = 0.0
    location: str = ""
    """Line of code."""
    state: str = ALIVE
    """Empty, done, or what it ended with."""
    host: str = ""
    pid: int = 0
    silent_seconds: float = 0.0
    """Time since its latest beat, by the clock of the rank that reads it."""


@dataclass(frozen=True)
class RankFailure:
    """Why the ranks cannot go on."""

    kind: str
    """gone, ended, silent or late."""
    text: str


def find_failure(heartbeats: Sequence[Heartbeat], rank: int, timeout: float) -> RankFailure | None:
    """What is wrong, as rank `me` sees it; None while all is well."""
    mine, others = heartbeats[rank], [beat for beat in heartbeats if beat.rank != rank]
    alive = [beat for beat in others if beat.state == ALIVE]
    for beat in alive:
        if beat.host == mine.host and not is_running(beat.pid):
            return RankFailure(
                "gone",
                f"rank {beat.rank} is gone: its process {beat.pid} ended without a word, "
                f"killed for want of memory perhaps. It was last seen in {beat.location}.",
            )
    for beat in others:
        if beat.state not in (ALIVE, DONE):
            return RankFailure("ended", f"rank {beat.rank} ended with {beat.state}.")
    for beat in alive:
        if beat.silent_seconds > timeout:
            return RankFailure(
                "silent",
                f"rank {beat.rank} has given no sign of life for {beat.silent_seconds:.0f} s. "
                f"It was last seen in {beat.location}.",
            )
    return find_stalled_rank(heartbeats, timeout)


def find_stalled_rank(heartbeats: Sequence[Heartbeat], timeout: float) -> RankFailure | None:
    """The rank furthest behind, where another has waited for longer than `timeout` seconds."""
    longest = max(heartbeats, key=lambda beat: beat.waited_seconds)
    if longest.waited_seconds <= timeout:
        return None
    waited = (
        f"has waited {longest.waited_seconds:.0f} s in {longest.collective} ({longest.location})"
    )
    last = min(heartbeats, key=lambda beat: beat.entered)
    if last.entered == longest.entered:
        return RankFailure(
            "late",
            f"rank {longest.rank} {waited}, where all ranks are: the network may be at fault.",
        )
    doing = "has come to its end" if last.state == DONE else f"is in {last.location}"
    return RankFailure(
        "late", f"rank {last.rank} is late: rank {longest.rank} {waited}; it {doing}."
    )


def process_namespace() -> str:
    """Names the table of processes that this one is in: machine, boot and container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
