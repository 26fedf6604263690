"""Timing in alternation, the machine's description, and dated reports."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

REPORTS = Path(__file__).parent / "reports"
WARM_UP = 6
"""Rounds before the timed ones, after which memory no longer grows."""
Update = Callable[[], object]
Clock = Callable[[], float]
Name = TypeVar("Name", bound=Hashable)


class Record(NamedTuple):
    seconds: list[float]
    """Seconds of each timed update, in the order of the rounds."""
    peak_mib: float
    """Peak memory of the process, Python and torch included."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def race(
    contestants: Mapping[Name, Callable[[], Update]],
    rounds: int,
    warm_up: int = WARM_UP,
    clock: Clock = time.perf_counter,
    checkouts: Mapping[Name, Path] | None = None,
) -> dict[Name, Record]:
    """Time programs in alternation, each in its own process, one update at a time.

    Those with a checkout import the toolkit and the shared modules of the benchmarks from there.

    Memory settings belong to a process. With `time.process_time` as the clock, single-threaded
    programs take nearly the same time on a busy machine as on an idle one.
    """
    context = multiprocessing.get_context("spawn")
    pipes: dict[Name, Any] = {}
    for name, make in contestants.items():
        pipes[name], child = context.Pipe()
        with import_first((checkouts or {}).get(name)):
            context.Process(target=_serve, args=(make, child, clock), daemon=True).start()
    times: dict[Name, list[float]] = {name: [] for name in contestants}
    for _ in range(warm_up + rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            times[name].append(pipe.recv())
    records = {}
    for name, pipe in pipes.items():
        pipe.send(False)
        records[name] = Record(times[name][warm_up:], pipe.recv())
    return records


@contextmanager
def import_first(checkout: Path | None) -> Iterator[None]:
    """Processes that start in this block look for modules in the checkout first."""
    added = [str(checkout), str(checkout / "benchmarks")] if checkout else []
    sys.path[:0] = added
    try:
        yield
    finally:
        del sys.path[: len(added)]


def _serve(make: Callable[[], Update], pipe: Any, clock: Clock) -> None:
    """Build the program, then run one update per message and answer with its seconds."""
    update = make()
    while pipe.recv():
        pipe.send(seconds(update, clock))
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def alternate(
    programs: Mapping[str, Update], rounds: int, warm_up: int = 1, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Median seconds of programs that alternate in this process."""
    times = alternate_rounds(programs, rounds, warm_up, clock)
    return {name: statistics.median(values) for name, values in times.items()}


def alternate_rounds(
    programs: Mapping[str, Update], rounds: int, warm_up: int, clock: Clock
) -> dict[str, list[float]]:
    """Seconds of each timed round."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(warm_up + rounds):
        for name, program in programs.items():
            times[name].append(seconds(program, clock))
    return {name: values[warm_up:] for name, values in times.items()}


def compare_rounds(ones: Iterable[float], others: Iterable[float]) -> float:
    """The median ratio of two programs that alternated."""
    return statistics.median(a / b for a, b in zip(ones, others, strict=True))


def steady_clock() -> Clock:
    """Processor time with one thread, which hardly depends on other processes; else wall time."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def seconds(program: Update, clock: Clock = time.perf_counter) -> float:
    start = clock()
    program()
    return clock() - start


def device_clock() -> float:
    """Wall time after all work of the GPU has finished."""
    torch.cuda.synchronize()
    return time.perf_counter()


def cores() -> int:
    return len(os.sched_getaffinity(0))


def machine(device: str = "cpu") -> str:
    """Processor or GPU, threads and versions."""
    processor = platform.processor() or platform.machine()
    parts = [processor, f"{cores()} cores", f"{torch.get_num_threads()} threads"]
    if device == "cuda":
        parts = [torch.cuda.get_device_name()]
    parts.append(f"torch {torch.__version__}")
    if importlib.util.find_spec("transformers"):
        parts.append(f"transformers {importlib.metadata.version('transformers')}")
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def parser(description: str, *, rounds: int | None = None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds is not None:
        options.add_argument("--rounds", type=int, default=rounds, help="timed rounds")
    options.add_argument("--report", action="store_true", help="write a dated file in reports/")
    return options


def publish(text: str, report: bool, title: str, description: str, suffix: str = "") -> None:
    """Print; with `report`, also write reports/DAY-SCRIPT.md with the script's description."""
    print(text)
    if report:
        day = datetime.date.today().isoformat()
        script = Path(sys.argv[0]).stem.replace("_", "-")
        path = REPORTS / f"{day}-{script}{suffix}.md"
        body = description.split("\n", 2)[2]
        path.write_text(f"# {title}, {day}\n\n{body}\n{text.rstrip()}\n", "utf-8")
        print(f"Written to {path}.")
