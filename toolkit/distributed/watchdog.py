"""Notices ranks that are gone or late, names them, and ends the others instead of a hang.

A thread of every rank tells the others once a second, through the store that the ranks meet in,
what its main thread does. No update waits for it.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import sys
import threading
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from toolkit.common.errors import ToolkitError
from toolkit.distributed.heartbeat import (
    ALIVE,
    DONE,
    Heartbeat,
    RankFailure,
    find_failure,
    main_thread_location,
    process_namespace,
)
from toolkit.distributed.world import World

PEER_FAILURE_EXIT_CODE = 3
"""Exit code of a rank that ends because another one is gone or late."""
HEARTBEAT_SECONDS = 1.0
GRACE_SECONDS = 6.0
"""Time for a rank to end by itself, by the same error perhaps, before the watchdog ends it."""

launch_numbers = itertools.count()


def connect_to_store() -> Any:
    """A connection of its own to the store that torchrun's ranks found each other through."""
    server = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(*server, is_master=False, timeout=timedelta(seconds=60))
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"watchdog {again} {next(launch_numbers)}", store)


class Watchdog:
    """Tells what this rank does, reads what the others do, and ends this one if it must."""

    def __init__(self, world: World, *, timeout: float, folder: Path | None = None) -> None:
        self.world, self.timeout, self.folder = world, timeout, folder
        self.store, self.host = connect_to_store(), process_namespace()
        self.state, self.heartbeats_sent = ALIVE, 0
        self.last_seen: dict[int, tuple[int, float]] = {}
        """Rank -> number of its latest beat, and when that was first read."""
        self.failure: RankFailure | None = None
        self.closing, self.ending = threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.run, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self.world.is_main:
            self.store.set("verdict", "")
        self.send_heartbeat()
        self.store.wait([*self.keys, "verdict"])
        self.thread.start()
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)

    @property
    def keys(self) -> list[str]:
        return [f"beat {rank}" for rank in range(self.world.size)]

    def run(self) -> None:
        """The thread: look once a second, and end this rank where it cannot go on."""
        while not self.closing.wait(HEARTBEAT_SECONDS):
            try:
                self.poll()
            except RuntimeError:  # the store is gone, and with it the process that keeps it
                self.failure = RankFailure(
                    "gone", "rank 0 is gone: the store that it keeps is closed."
                )
            if self.failure:
                patience = 0.0 if self.failure.kind in ("late", "silent") else GRACE_SECONDS
                if not self.closing.wait(patience):
                    self.abort()

    def poll(self) -> None:
        """Tell, read and judge; the first verdict of any rank is that of all."""
        self.send_heartbeat()
        beats, said = self.read_heartbeats()
        found = None if said else find_failure(beats, self.world.rank, self.timeout)
        if found:
            said = self.store.compare_set("verdict", "", json.dumps(asdict(found))).decode()
        self.failure = RankFailure(**json.loads(said)) if said else None

    def send_heartbeat(self) -> None:
        pulse, self.heartbeats_sent = self.world.collectives, self.heartbeats_sent + 1
        mine = Heartbeat(
            rank=self.world.rank,
            number=self.heartbeats_sent,
            entered=pulse.entered,
            collective=pulse.current,
            waited_seconds=pulse.waited_seconds,
            location=main_thread_location(),
            state=self.state,
            host=self.host,
            pid=os.getpid(),
        )
        self.store.set(f"beat {self.world.rank}", json.dumps(asdict(mine)))

    def read_heartbeats(self) -> tuple[list[Heartbeat], str]:
        """Every rank's latest beat, with how long ago it came by this clock; and the verdict."""
        *texts, said = self.store.multi_get([*self.keys, "verdict"])
        now, beats = time.monotonic(), []
        for rank, text in enumerate(texts):
            fields = json.loads(text)
            count, since = self.last_seen.get(rank, (-1, now))
            since = since if fields["heartbeats_sent"] == count else now
            self.last_seen[rank] = fields["heartbeats_sent"], since
            beats.append(Heartbeat(**{**fields, "silent_seconds": now - since}))
        return beats, said.decode()

    def close(self, error: BaseException | None = None) -> None:
        """Leave the others; with what this rank ended with, unless that was another's fault."""
        in_exchange = bool(self.world.collectives.current)
        at_once = error is not None and not isinstance(error, Exception)  # Ctrl-C, twice
        if error and in_exchange and not at_once and not isinstance(error, ToolkitError):
            self.abort_if_peer_failed()
        self.closing.set()
        self.thread.join(timeout=2 * HEARTBEAT_SECONDS)
        text = " ".join(str(error).split()) or "no message"
        self.state = f"{type(error).__name__}: {text[:300]}" if error else DONE
        try:
            self.send_heartbeat()
            if self.world.is_main and not at_once:
                self.wait_for_peers(3 * HEARTBEAT_SECONDS if error else GRACE_SECONDS)
        except RuntimeError as closed:
            if not error:
                print(f"the ranks' store closed early: {closed}", file=sys.stderr)

    def abort_if_peer_failed(self) -> None:
        """An exchange broke: end as a lost rank if some other one is found gone."""
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until:
            if self.failure:
                self.abort()
            time.sleep(0.1)

    def wait_for_peers(self, seconds: float) -> None:
        """Keep the store until the others have left too."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            beats, _ = self.read_heartbeats()
            if all(beat.state != ALIVE for beat in beats):
                return
            time.sleep(0.02)

    def abort(self) -> None:
        """Say why, leave the stacks of all threads behind, and exit: the main thread may hang."""
        self.ending.acquire()  # for good: one of two threads says it
        verdict = self.failure
        assert verdict, "a rank is ended for a reason"
        if self.folder and self.folder.is_dir():
            with (self.folder / f"stacks_rank{self.world.rank}.txt").open("w") as file:
                faulthandler.dump_traceback(file)
        if verdict.kind in ("late", "silent"):
            print(f"rank {self.world.rank} is in:", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(2)
        says = f"rank {self.world.rank} ends: {verdict.text}"
        print(f"{says} Start again to go on from the last checkpoint.", file=sys.stderr, flush=True)
        if self.world.is_main:
            time.sleep(2 * HEARTBEAT_SECONDS)  # the others read the verdict in the store kept here
        os._exit(PEER_FAILURE_EXIT_CODE)
