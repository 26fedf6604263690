"""Contestants that take turns, each in a process of its own: memory settings belong to one."""

from __future__ import annotations

import datetime
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

Update = Callable[[], object]
WARM_UP = 6
"""Rounds before the timed ones: after them nothing grows, what is kept in memory is there."""


class Record(NamedTuple):
    seconds: list[float]
    """Of each timed update, in the order of the rounds; the clock's."""
    peak_mib: float
    """Most memory the process has held, what Python and torch take included."""


def contestant(make: Callable[[], Update], pipe: Any, clock: Callable[[], float]) -> None:
    """A process: builds, then makes one update for every message and answers with its seconds."""
    update = make()
    while pipe.recv():
        start = clock()
        update()
        pipe.send(clock() - start)
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def race(
    contestants: Mapping[str, Callable[[], Update]],
    rounds: int,
    warm_up: int = WARM_UP,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Record]:
    """The contestants take turns, one update at a time, while the others sleep.

    With `time.process_time` for a clock, seconds are the processor's: nearly the same on a busy
    machine as on an idle one where a contestant has one thread.
    """
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Any] = {}
    for name, make in contestants.items():
        pipes[name], theirs = context.Pipe()
        context.Process(target=contestant, args=(make, theirs, clock), daemon=True).start()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(warm_up + rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            times[name].append(pipe.recv())
    records = {}
    for name, pipe in pipes.items():
        pipe.send(False)
        records[name] = Record(times[name][warm_up:], pipe.recv())
    return records


def machine() -> str:
    import transformers

    return (
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"Python {platform.python_version()}"
    )


def report(name: str, title: str, doc: str, text: str) -> None:
    """Write reports/DAY-NAME.md: what the script says of itself, and what was found."""
    day = datetime.date.today().isoformat()
    path = Path(__file__).parent / "reports" / f"{day}-{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {title}, {day}\n\n{doc.split(chr(10), 2)[2]}\n{text}")
    print(f"Written to {path}.")
