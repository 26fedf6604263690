"""What a program's first updates show: warm-up time, peak memory, host time, synchronizations."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from harness import Update

from gpu_sections.context import Context, Row
from gpu_sections.programs import Program

WARM_UPS = 3


def observe(make: Callable[[], Program], ctx: Context) -> tuple[Program, Row]:
    """Build a program and run it a few times, after which it can be timed."""
    before = torch.cuda.memory_allocated() if ctx.on_gpu else 0
    program = make()
    if ctx.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    start = ctx.clock()
    program.update()
    first = ctx.clock() - start
    for _ in range(ctx.pick(WARM_UPS, 0)):
        program.update()
    ctx.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30 if ctx.on_gpu else None
    places = synchronizations(program.update) if ctx.on_gpu else None
    row: Row = {
        "first update s": first,
        "host ms": 1e3 * host_seconds(program.update, ctx),
        "peak GiB": peak,
        "synchronizations": len(places) if places is not None else None,
        "at": ", ".join(dict.fromkeys(places)) or None if places else None,
    }
    return program, row


def host_seconds(update: Update, ctx: Context) -> float:
    """Median time until an update has been launched, without waiting for it."""
    times = []
    for _ in range(ctx.pick(5, 1)):
        ctx.synchronize()
        start = time.perf_counter()
        update()
        times.append(time.perf_counter() - start)
    ctx.synchronize()
    return statistics.median(times)


def synchronizations(update: Update) -> list[str]:
    """Where one update waits for the GPU: FILE:LINE of each time."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            update()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [w for w in heard if "called a synchronizing" in str(w.message)]
    return [f"{Path(w.filename).name}:{w.lineno}" for w in waits]
