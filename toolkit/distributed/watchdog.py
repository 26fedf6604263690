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
from toolkit.distributed.heartbeat import ALIVE, DONE, Beat, Verdict, host, judge, whereabouts
from toolkit.distributed.world import World

LOST = 3
"""Exit code of a rank that ends because another one is gone or late."""
BEAT_SECONDS = 1.0
GRACE_SECONDS = 6.0
"""Time for a rank to end by itself, by the same error perhaps, before the watchdog ends it."""

launches = itertools.count()


def meeting_point() -> Any:
    """A connection of its own to the store that torchrun's ranks found each other through."""
    server = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(*server, is_master=False, timeout=timedelta(seconds=60))
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"watchdog {again} {next(launches)}", store)


class Watchdog:
    """Tells what this rank does, reads what the others do, and ends this one if it must."""

    def __init__(self, world: World, *, timeout: float, folder: Path | None = None) -> None:
        self.world, self.timeout, self.folder = world, timeout, folder
        self.store, self.host = meeting_point(), host()
        self.state, self.count = ALIVE, 0
        self.seen: dict[int, tuple[int, float]] = {}
        """Rank -> number of its latest beat, and when that was first read."""
        self.verdict: Verdict | None = None
        self.closing, self.ending = threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self.world.first:
            self.store.set("verdict", "")
        self.beat()
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

    def watch(self) -> None:
        """The thread: look once a second, and end this rank where it cannot go on."""
        while not self.closing.wait(BEAT_SECONDS):
            try:
                self.look()
            except RuntimeError:  # the store is gone, and with it the process that keeps it
                self.verdict = Verdict("gone", "rank 0 is gone: the store that it keeps is closed.")
            if self.verdict:
                patience = 0.0 if self.verdict.kind in ("late", "silent") else GRACE_SECONDS
                if not self.closing.wait(patience):
                    self.end()

    def look(self) -> None:
        """Tell, read and judge; the first verdict of any rank is that of all."""
        self.beat()
        beats, said = self.read()
        found = None if said else judge(beats, self.world.rank, self.timeout)
        if found:
            said = self.store.compare_set("verdict", "", json.dumps(asdict(found))).decode()
        self.verdict = Verdict(**json.loads(said)) if said else None

    def beat(self) -> None:
        pulse, self.count = self.world.pulse, self.count + 1
        mine = Beat(
            rank=self.world.rank,
            count=self.count,
            entered=pulse.entered,
            exchange=pulse.exchange,
            waited_seconds=pulse.waited_seconds,
            where=whereabouts(),
            state=self.state,
            host=self.host,
            process=os.getpid(),
        )
        self.store.set(f"beat {self.world.rank}", json.dumps(asdict(mine)))

    def read(self) -> tuple[list[Beat], str]:
        """Every rank's latest beat, with how long ago it came by this clock; and the verdict."""
        *texts, said = self.store.multi_get([*self.keys, "verdict"])
        now, beats = time.monotonic(), []
        for rank, text in enumerate(texts):
            fields = json.loads(text)
            count, since = self.seen.get(rank, (-1, now))
            since = since if fields["count"] == count else now
            self.seen[rank] = fields["count"], since
            beats.append(Beat(**{**fields, "silent_seconds": now - since}))
        return beats, said.decode()

    def close(self, error: BaseException | None = None) -> None:
        """Leave the others; with what this rank ended with, unless that was another's fault."""
        in_exchange = bool(self.world.pulse.exchange)
        at_once = error is not None and not isinstance(error, Exception)  # Ctrl-C, twice
        if error and in_exchange and not at_once and not isinstance(error, ToolkitError):
            self.blame()
        self.closing.set()
        self.thread.join(timeout=2 * BEAT_SECONDS)
        text = " ".join(str(error).split()) or "no message"
        self.state = f"{type(error).__name__}: {text[:300]}" if error else DONE
        try:
            self.beat()
            if self.world.first and not at_once:
                self.linger(3 * BEAT_SECONDS if error else GRACE_SECONDS)
        except RuntimeError as closed:
            if not error:
                print(f"the ranks' store closed early: {closed}", file=sys.stderr)

    def blame(self) -> None:
        """An exchange broke: end as a lost rank if some other one is found gone."""
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until:
            if self.verdict:
                self.end()
            time.sleep(0.1)

    def linger(self, seconds: float) -> None:
        """Keep the store until the others have left too."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            beats, _ = self.read()
            if all(beat.state != ALIVE for beat in beats):
                return
            time.sleep(0.02)

    def end(self) -> None:
        """Say why, leave the stacks of all threads behind, and exit: the main thread may hang."""
        self.ending.acquire()  # for good: one of two threads says it
        verdict = self.verdict
        assert verdict, "a rank is ended for a reason"
        if self.folder and self.folder.is_dir():
            with (self.folder / f"stacks_rank{self.world.rank}.txt").open("w") as file:
                faulthandler.dump_traceback(file)
        if verdict.kind in ("late", "silent"):
            print(f"rank {self.world.rank} is in:", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(2)
        says = f"rank {self.world.rank} ends: {verdict.text}"
        print(f"{says} Start again to go on from the last checkpoint.", file=sys.stderr, flush=True)
        if self.world.first:
            time.sleep(2 * BEAT_SECONDS)  # the others read the verdict in the store kept here
        os._exit(LOST)
