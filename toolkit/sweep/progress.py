"""A sweep for the eye: on a terminal a bar for each running training, a line for each ended one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console as Terminal
from rich.progress import TaskID

from toolkit.reporting.progress import bar_of, clock
from toolkit.sweep.jobs import LOG, Ended, Job

LOOK_SECONDS = 1.0
TAIL_BYTES = 8192


class Watch:
    """Called by run_all at every turn; looks into the logs once a second."""

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        total: int,
        updates: int | None,
        terminal: Terminal | None = None,
    ) -> None:
        self.total, self.left, self.updates = total, len(jobs), updates
        self.terminal = terminal or Terminal(stderr=True)
        self.bars = bar_of(self.terminal) if self.terminal.is_terminal else None
        self.shown: dict[str, TaskID] = {}
        self.told: set[str] = set()
        self.looked = -LOOK_SECONDS

    def __enter__(self) -> Watch:
        if self.left < self.total:
            self.tell(f"{self.total - self.left} of {self.total} runs were finished before")
        if self.bars:
            self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.bars:
            self.bars.stop()

    def tell(self, text: str) -> None:
        self.terminal.print(text, markup=False, highlight=False, soft_wrap=True)

    def __call__(self, running: Sequence[Job], ended: Mapping[str, Ended]) -> None:
        for name in ended.keys() - self.told:
            self.told.add(name)
            self.tell_end(name, ended[name])
        for job in running:
            self.tell_start(job)
        if self.bars and time.monotonic() - self.looked > LOOK_SECONDS:
            self.looked = time.monotonic()
            for job in running:
                self.move(job)
            self.bars.refresh()

    def tell_start(self, job: Job) -> None:
        if job.name in self.shown:
            return
        done = self.total - self.left + len(self.shown) + 1
        self.shown[job.name] = TaskID(-1)
        if self.bars:
            self.shown[job.name] = self.bars.add_task(job.name, total=self.updates, text="")
        else:
            self.tell(f"started   {job.name} ({done}/{self.total}), log in {job.folder / LOG}")

    def tell_end(self, name: str, ended: Ended) -> None:
        if self.bars and name in self.shown:
            self.bars.remove_task(self.shown[name])
        if ended.signalled:
            self.tell(f"stopped   {name} after {clock(ended.seconds)}")
        elif ended.exit_code:
            self.tell(f"failed    {name} after {clock(ended.seconds)}: {ended.reason}")
        else:
            self.tell(f"finished  {name} in {clock(ended.seconds)}")

    def move(self, job: Job) -> None:
        latest = latest_record(job.folder / "metrics.jsonl")
        if self.bars and latest:
            loss = latest.get("loss")
            text = f"{latest['update']}" + (f"/{self.updates}" if self.updates else "")
            text += f"  loss {loss:.3f}" if isinstance(loss, float) else ""
            self.bars.update(self.shown[job.name], completed=latest["update"], text=text)


def latest_record(path: Path) -> dict[str, Any] | None:
    """The last whole training record of a log that another process is writing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("event") == "train":
            return record
    return None
