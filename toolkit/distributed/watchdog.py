"""Detection of dead and stalled ranks: the others exit with its name instead of hanging.

A thread of every rank publishes a heartbeat once a second in the store of torchrun's rendezvous,
and reads those of the other ranks. No update waits for it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from toolkit.common import system
from toolkit.common.errors import ToolkitError
from toolkit.common.files import is_running, open_unlinked
from toolkit.distributed.world import World

PEER_FAILURE_EXIT_CODE = 3
"""Exit code of a rank that ends because another rank died, failed or stalled."""
HEARTBEAT_SECONDS = 1.0
GRACE_SECONDS = 6.0
"""Time for a rank to report an error itself before the watchdog ends it."""
JOIN_TIMEOUT = timedelta(seconds=60)


class Watchdog:
    """Publishes this rank's heartbeats, reads the others', and aborts this rank on a failure."""

    def __init__(
        self, world: World, store: Store, *, timeout: float, folder: Path | None = None
    ) -> None:
        self.world, self.timeout, self.folder = world, timeout, folder
        connection = store.clone()  # type: ignore[attr-defined]  # one per thread
        self.store, self.host = PrefixStore("watchdog", connection), process_namespace()
        self.state, self.heartbeats_sent = ALIVE, 0
        self.last_seen: dict[int, tuple[int, float]] = {}
        """Rank -> number of its latest heartbeat, and when that was first read."""
        self.failure: RankFailure | None = None
        self.closing, self.ending = threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.run, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self.world.is_main:
            self.store.set("failure", "")
        self.send_heartbeat()
        self.store.wait([*self.keys, "failure"], JOIN_TIMEOUT)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)

    @property
    def keys(self) -> list[str]:
        return [f"heartbeat {rank}" for rank in range(self.world.size)]

    def run(self) -> None:
        """The thread: poll once a second, and abort this rank if the ranks cannot continue."""
        while not self.closing.wait(HEARTBEAT_SECONDS):
            try:
                self.poll()
            except RuntimeError:  # the store is closed, since its process has ended
                self.failure = "died", "rank 0 died: its store is closed."
            if self.failure:
                grace = 0.0 if self.failure[0] in ("stalled", "silent") else GRACE_SECONDS
                if not self.closing.wait(grace):
                    self.abort()

    def poll(self) -> None:
        """Exchange heartbeats and look for a failure; all ranks use the first one published."""
        self.send_heartbeat()
        heartbeats, published = self.read_heartbeats()
        mine = None if published else find_failure(heartbeats, self.world.rank, self.timeout)
        if mine:
            published = self.store.compare_set("failure", "", json.dumps(mine)).decode()
        self.failure = tuple(json.loads(published)) if published else None

    def send_heartbeat(self) -> None:
        self.heartbeats_sent += 1
        collectives = self.world.collectives
        mine = Heartbeat(
            rank=self.world.rank,
            number=self.heartbeats_sent,
            entered=collectives.entered,
            collective=collectives.current,
            waited_seconds=collectives.waited_seconds,
            location=main_thread_location(),
            state=self.state,
            host=self.host,
            pid=os.getpid(),
        )
        self.store.set(f"heartbeat {self.world.rank}", json.dumps(asdict(mine)))

    def read_heartbeats(self) -> tuple[list[Heartbeat], str]:
        """Every rank's latest heartbeat with its age by this clock, and the published failure."""
        *texts, failure = self.store.multi_get([*self.keys, "failure"])
        now, heartbeats = time.monotonic(), []
        for rank, text in enumerate(texts):
            fields = json.loads(text)
            number, since = self.last_seen.get(rank, (-1, now))
            since = since if fields["number"] == number else now
            self.last_seen[rank] = fields["number"], since
            heartbeats.append(Heartbeat(**{**fields, "silent_seconds": now - since}))
        return heartbeats, failure.decode()

    def close(self, error: BaseException | None = None) -> None:
        """Publish how this rank ended; abort instead if its error was caused by another rank."""
        in_collective = bool(self.world.collectives.current)
        immediately = error is not None and not isinstance(error, Exception)  # Ctrl-C, twice
        if error and in_collective and not immediately and not isinstance(error, ToolkitError):
            # a collective failed: abort if the watchdog finds that another rank has failed
            deadline = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < deadline:
                if self.failure:
                    self.abort()
                time.sleep(0.1)
        self.closing.set()
        self.thread.join(timeout=2 * HEARTBEAT_SECONDS)
        text = " ".join(str(error).split()) or "no message"
        self.state = f"{type(error).__name__}: {text[:300]}" if error else DONE
        try:
            self.send_heartbeat()
            if self.world.is_main and not immediately:
                self.wait_for_peers(3 * HEARTBEAT_SECONDS if error else GRACE_SECONDS)
        except RuntimeError as closed:
            if not error:
                print(f"the ranks' store closed early: {closed}", file=sys.stderr)

    def wait_for_peers(self, seconds: float) -> None:
        """Keep the store open until the other ranks have ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            heartbeats, _ = self.read_heartbeats()
            if all(it.state != ALIVE for it in heartbeats):
                return
            time.sleep(0.02)

    def abort(self) -> None:
        """Report the failure, dump all stacks and exit the process: the main thread may hang."""
        self.ending.acquire()  # never released: only one thread reports
        assert self.failure, "a rank is aborted because of a failure"
        kind, text = self.failure
        folder = self.folder
        with suppress(OSError):  # a full disk, or one that is gone, must not keep a rank alive
            if folder and folder.is_dir():
                with open_unlinked(folder / f"stacks_rank{self.world.rank}.txt", "wb") as file:
                    faulthandler.dump_traceback(file)
        if kind in ("stalled", "silent"):
            print(f"rank {self.world.rank} is in:", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(2)
        if kind == "failed":
            system.wait_to_be_ended()
        advice = "" if kind == "failed" else " Run the same command to resume."
        print(f"rank {self.world.rank} exits: {text}{advice}", file=sys.stderr, flush=True)
        if self.world.is_main:
            time.sleep(2 * HEARTBEAT_SECONDS)  # the others read the failure from this store
        os._exit(PEER_FAILURE_EXIT_CODE)


PACKAGE = Path(__file__).parents[1]
ALIVE, DONE = "", "done"


def main_thread_location() -> str:
    """The main thread's innermost line of code, and the lines of the toolkit that called it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines: list[str] = []
    while frame:
        path = Path(frame.f_code.co_filename)
        if (not lines or PACKAGE in path.parents) and path.name != "watchdog.py":
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


RankFailure = tuple[str, str]
"""Why the ranks cannot continue: died, failed, silent or stalled; and a sentence."""


def find_failure(heartbeats: Sequence[Heartbeat], rank: int, timeout: float) -> RankFailure | None:
    """The failure that `rank` sees; None if all ranks are well."""
    mine, others = heartbeats[rank], [it for it in heartbeats if it.rank != rank]
    alive = [it for it in others if it.state == ALIVE]
    for it in alive:
        if it.host == mine.host and not is_running(it.pid):
            return (
                "died",
                f"rank {it.rank} died: its process {it.pid} is gone, possibly killed because "
                f"memory ran out. It was last in {it.location}.",
            )
    for it in others:
        if it.state not in (ALIVE, DONE):
            return "failed", f"rank {it.rank} failed with {it.state.rstrip('.')}."
    for it in alive:
        if it.silent_seconds > timeout:
            return (
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
        return "stalled", f"{waited}, as all ranks do: the network may be at fault."
    doing = "has finished" if last.state == DONE else f"is in {last.location}"
    return "stalled", f"rank {last.rank} is stalled: {waited}; it {doing}."


def process_namespace() -> str:
    """An id of the process table of this process: machine, boot and container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
