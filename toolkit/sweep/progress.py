"""Console output of a sweep: a bar per running job on a terminal, and a line per finished job."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import TaskID

from toolkit.common.json_files import Count, JsonError, decode
from toolkit.reporting.console import Console, create_bar, format_duration, print_plain
from toolkit.sweep.jobs import LOG_FILE, JobResult, SweepJob

REFRESH_SECONDS = 1.0
TAIL_BYTES = 8192


@dataclass(frozen=True)
class TrainRecord:
    """What is shown of a line of metrics.jsonl."""

    event: str
    update: Count = 0
    loss: float | str | None = None
    """Not finite as text; None if every update was skipped."""


class SweepProgress:
    """Callback of run_all; reads the jobs' logs once a second."""

    def __init__(
        self,
        jobs: Sequence[SweepJob],
        *,
        total: int,
        updates: int | None,
        console: Console | None = None,
    ) -> None:
        self.total, self.left, self.updates = total, len(jobs), updates
        self.console = console or Console(stderr=True)
        self.bars = create_bar(self.console) if self.console.is_terminal else None
        self.tasks: dict[str, TaskID] = {}
        self.reported: set[str] = set()
        self.refreshed_at = -REFRESH_SECONDS

    def __enter__(self) -> SweepProgress:
        if self.left < self.total:
            self.log(f"{self.total - self.left} of {self.total} runs are already finished")
        if self.bars:
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bars:
            self.bars.stop()

    def log(self, text: str) -> None:
        print_plain(self.console, text)

    def __call__(self, running: Sequence[SweepJob], ended: Mapping[str, JobResult]) -> None:
        for name in ended.keys() - self.reported:
            self.reported.add(name)
            self.report_end(name, ended[name])
        for job in running:
            self.report_start(job)
        if self.bars and time.monotonic() - self.refreshed_at > REFRESH_SECONDS:
            self.refreshed_at = time.monotonic()
            for job in running:
                self.update_bar(job)
            self.bars.refresh()

    def report_start(self, job: SweepJob) -> None:
        if job.name in self.tasks:
            return
        done = self.total - self.left + len(self.tasks) + 1
        self.tasks[job.name] = TaskID(-1)
        if self.bars:
            self.tasks[job.name] = self.bars.add_task(job.name, total=self.updates, text="")
        else:
            self.log(f"started   {job.name} ({done}/{self.total}), log in {job.folder / LOG_FILE}")

    def report_end(self, name: str, ended: JobResult) -> None:
        if self.bars and name in self.tasks:
            self.bars.remove_task(self.tasks[name])
        if ended.signaled:
            self.log(f"stopped   {name} after {format_duration(ended.seconds)}")
        elif ended.exit_code:
            self.log(f"failed    {name} after {format_duration(ended.seconds)}: {ended.reason}")
        else:
            self.log(f"finished  {name} in {format_duration(ended.seconds)}")

    def update_bar(self, job: SweepJob) -> None:
        latest = read_latest_record(job.folder / "metrics.jsonl")
        if self.bars and latest:
            text = f"{latest.update}" + (f"/{self.updates}" if self.updates else "")
            text += f"  loss {latest.loss:.3f}" if isinstance(latest.loss, float) else ""
            self.bars.update(self.tasks[job.name], completed=latest.update, text=text)


def read_latest_record(path: Path) -> TrainRecord | None:
    """The last complete training record of a log that another process is writing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        try:
            record = decode(line, TrainRecord)
        except JsonError:
            continue
        if record.event == "train":
            return record
    return None
