"""Console output of a sweep: a line per started and finished job, and a bar on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.reporting.console import Console, create_bar, format_duration, print_plain
from toolkit.sweep.jobs import LOG_FILE, JobResult, SweepJob


class SweepProgress:
    """Callback of run_all."""

    def __init__(
        self, jobs: Sequence[SweepJob], *, total: int, console: Console | None = None
    ) -> None:
        self.total, self.done = total, total - len(jobs)
        self.console = console or Console(stderr=True)
        self.bar = create_bar(self.console) if self.console.is_terminal else None
        self.started: set[str] = set()
        self.reported: set[str] = set()

    def __enter__(self) -> SweepProgress:
        if self.done:
            self.log(f"{self.done} of {self.total} runs are already finished")
        if self.bar:
            self.task = self.bar.add_task("sweep", total=self.total, text="")
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar:
            self.bar.stop()

    def log(self, text: str) -> None:
        print_plain(self.console, text)

    def __call__(self, running: Sequence[SweepJob], ended: Mapping[str, JobResult]) -> None:
        for name in ended.keys() - self.reported:
            self.reported.add(name)
            self.report_end(name, ended[name])
        for job in running:
            if job.name not in self.started:
                self.started.add(job.name)
                number = f"{self.done + len(self.started)}/{self.total}"
                self.log(f"started   {job.name} ({number}), log in {job.folder / LOG_FILE}")
        if self.bar:
            done = self.done + len(ended)
            text = f"{done} of {self.total} runs, {len(running)} running"
            self.bar.update(self.task, completed=done, text=text)

    def report_end(self, name: str, ended: JobResult) -> None:
        duration = format_duration(ended.seconds)
        if ended.signaled:
            self.log(f"stopped   {name} after {duration}")
        elif ended.exit_code:
            self.log(f"failed    {name} after {duration}: {ended.reason}")
        else:
            self.log(f"finished  {name} in {duration}")
