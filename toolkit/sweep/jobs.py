"""Commands run in parallel, each in its slot with its resources, and lines about them."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_unlinked
from toolkit.common.system import (
    PARENT,
    REPEAT_SECONDS,
    FolderLock,
    available_cores,
    known_signals,
    signal_name,
)
from toolkit.reporting.console import (
    RUN_LINE_SECONDS,
    Console,
    Progress,
    format_duration,
    print_plain,
)

SIGNALS = known_signals("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
POLL_SECONDS = 0.1
ENDING_SECONDS = 60.0
"""Time for a run to save and end whose sweep was killed."""
LOG_FILE = "log.txt"


@dataclass(kw_only=True)
class SweepJob:
    """A command to run, its process once it has started, and how it ended."""

    name: str
    command: Sequence[str]
    folder: Path
    """Save folder of the run; also contains the log."""
    process: subprocess.Popen[bytes] = field(init=False)
    started_at: float = 0.0
    stop_requested: bool = False
    exit_code: int = 0
    seconds: float = 0.0
    reason: str = ""
    """Why it failed: the last line of its log, or the signal; else empty."""


def run_all(
    jobs: Sequence[SweepJob],
    slots: Sequence[Mapping[str, str]],
    callback: Callable[[Sequence[SweepJob], Mapping[str, SweepJob]], object],
) -> int:
    """Run every job in a slot, which is a set of environment variables.

    `callback` is called regularly with the running jobs, and with those that have ended, by name.
    Returns 0, or the number of the signal that ended the sweep. A failed job does not affect the
    others. The first signal terminates running jobs, the second one kills them. An exception, such
    as a BrokenPipeError of the callback, terminates them too and is raised when they have ended.
    """
    waiting, running, ended = deque(jobs), dict[int, SweepJob](), dict[str, SweepJob]()
    with catch_signals() as received:
        try:
            while running or (waiting and not received):
                free = [slot for slot in range(len(slots)) if slot not in running]
                for slot in [] if received else free[: len(waiting)]:
                    job = waiting.popleft()
                    try:
                        start_job(job, slots[slot])
                        running[slot] = job
                    except ToolkitError as error:
                        job.exit_code, job.reason = 1, str(error)
                        ended[job.name] = job
                if received:
                    stop_jobs(running.values(), kill=len(received) > 1)
                for job in pop_ended(running):
                    collect_result(job)
                    ended[job.name] = job
                callback([*running.values()], ended)
                time.sleep(POLL_SECONDS)
        finally:
            while running:
                stop_jobs(running.values(), kill=len(received) > 1)
                pop_ended(running)
                time.sleep(POLL_SECONDS)
    return received[0] if received else 0


def stop_jobs(running: Iterable[SweepJob], *, kill: bool) -> None:
    """Ask the jobs, once each, to save and end; or kill them."""
    for job in running:
        if kill:
            job.process.kill()
        elif not job.stop_requested:
            job.process.terminate()
        job.stop_requested = True


def pop_ended(running: dict[int, SweepJob]) -> list[SweepJob]:
    """Remove the jobs that have ended from their slots, and return them."""
    slots = [slot for slot, job in running.items() if job.process.poll() is not None]
    return [running.pop(slot) for slot in slots]


def start_job(job: SweepJob, environment: Mapping[str, str]) -> None:
    """Start the job in its own session, so that Ctrl-C reaches it only through the sweep.

    A job of a sweep that was killed saves and ends soon. Raises a ToolkitError if a process is
    still training in the folder then.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(job.folder)
    lock.acquire(ENDING_SECONDS)
    lock.release()  # the job acquires it again
    with open_unlinked(job.folder / LOG_FILE, "ab") as log:
        job.process = subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, PARENT: str(os.getpid())},
            start_new_session=True,
        )
    job.started_at = time.monotonic()


def collect_result(job: SweepJob) -> None:
    """Set the exit code, the time and the reason of failure of a job that has ended."""
    job.exit_code, job.seconds = job.process.returncode, time.monotonic() - job.started_at
    if job.exit_code > 0:
        log = (job.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in log.split("\n") if line.strip()]
        job.reason = (lines or ["the log is empty"])[-1]
    elif job.exit_code < 0 and not job.stop_requested:
        name = signal_name(-job.exit_code)
        memory = ", as the system does when it runs out of memory" if name == "SIGKILL" else ""
        job.reason = f"killed by {name}{memory}"


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Collect the signals received; one that is repeated within REPEAT_SECONDS counts once."""
    received: list[int] = []
    last: dict[int, float] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - last.get(number, -math.inf) > REPEAT_SECONDS:
            received.append(number)
            last[number] = now

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


def allocate_slots(jobs: int, device: str) -> list[dict[str, str]]:
    """Environment variables of each slot. With `jobs` 0: one per GPU, or one without GPUs.

    GPUs are those of CUDA_VISIBLE_DEVICES (numbers or UUIDs), else all.
    """
    visible, count = os.environ.get(VISIBLE_DEVICES), torch.cuda.device_count()
    gpus = visible.split(",")[:count] if visible else [str(index) for index in range(count)]
    if gpus and device != "cpu":
        return [{VISIBLE_DEVICES: gpus[slot % len(gpus)]} for slot in range(jobs or len(gpus))]
    if jobs <= 1:
        return [{}]
    threads = max(1, available_cores() // jobs)
    return [{"OMP_NUM_THREADS": str(threads)} for _ in range(jobs)]


SLURM_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=toolkit-sweep
#SBATCH --array=0-{last}
#SBATCH --output={base}/slurm-%A_%a.txt
#SBATCH --signal=B:USR1@120
# Add what your cluster requires: --partition, --time, --gres=gpu:1, --cpus-per-task.
# A run that is stopped early saves a checkpoint; submit again to resume it. When all are done,
# the command that printed this script, without --sweep.slurm, prints the table.
cd {here} || exit
case $SLURM_ARRAY_TASK_ID in
{cases}
esac
"""


def slurm_script(runs: Sequence[tuple[str, str]], base: Path) -> str:
    """A Slurm array script from (name, command) of each unfinished run."""
    if not runs:
        return "# all runs of this sweep are finished\n"
    cases = [f"  {n}) exec {command} ;; # {name}" for n, (name, command) in enumerate(runs)]
    return SLURM_SCRIPT.format(
        last=len(runs) - 1, base=base, here=shlex.quote(str(Path.cwd())), cases="\n".join(cases)
    )


REPORT = re.compile(r"^train +update +(?P<update>\d+)/(?P<total>\d+).*? loss (?P<loss>\S+)", re.M)
"""A line of a run's log, as TrainingConsole prints it."""


def latest_report(job: SweepJob) -> re.Match[str] | None:
    """Update and loss in the last line of a log that has them."""
    with suppress(OSError), (job.folder / LOG_FILE).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
        return next(reversed([*REPORT.finditer(log.read().decode(errors="replace"))]), None)
    return None


class SweepProgress(Progress):
    """Callback of run_all: a bar of all runs, or a few lines, and lines on start and end."""

    def __init__(
        self, jobs: Sequence[SweepJob], *, total: int, console: Console | None = None
    ) -> None:
        super().__init__("sweep", total, "runs", console=console, line_seconds=RUN_LINE_SECONDS)
        self.runs = len(jobs)
        self.done = self.finished_before = total - len(jobs)
        self.running: list[SweepJob] = []
        self.started: set[str] = set()
        self.reported: set[str] = set()

    def __enter__(self) -> SweepProgress:
        if self.done:
            self.log(f"{self.done} of {self.total} runs are already finished")
        super().__enter__()
        return self

    def log(self, text: str) -> None:
        print_plain(self.console, text)

    def text(self, now: float) -> str:
        """`2 of 6 runs, loss 5.32 at update 300/1000, 0:09 left`, by the logs of what runs."""
        parts, done = [f"{self.done} of {self.total} runs"], float(self.done - self.finished_before)
        for report in filter(None, map(latest_report, self.running)):
            parts.append(f"loss {report['loss']} at update {report['update']}/{report['total']}")
            done += int(report["update"]) / int(report["total"])
        if done:
            left = (self.runs - done) * (now - self.started_at) / done
            parts.append(f"{format_duration(left)} left")
        return ", ".join(parts)

    def __call__(self, running: Sequence[SweepJob], ended: Mapping[str, SweepJob]) -> None:
        for name in ended.keys() - self.reported:
            self.reported.add(name)
            code, duration = ended[name].exit_code, format_duration(ended[name].seconds)
            # perhaps with a checkpoint
            if code - 128 in SIGNALS or (code < 0 and not ended[name].reason):
                self.log(f"stopped   {name} after {duration}")
            elif code:
                self.log(f"failed    {name} after {duration}: {ended[name].reason}")
            else:
                self.log(f"finished  {name} in {duration}")
        for job in running:
            if job.name not in self.started:
                self.started.add(job.name)
                number = f"{self.finished_before + len(self.started)}/{self.total}"
                self.log(f"started   {job.name} ({number}), log in {job.folder / LOG_FILE}")
        self.running = list(running)
        self.advance(self.finished_before + len(ended) - self.done)
