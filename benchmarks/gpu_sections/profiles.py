"""The ten kernels that take the most time of an update, and how long the GPU was busy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gpu_sections.batches import Shape
from gpu_sections.context import Context, Row, describe_error
from gpu_sections.programs import Model

V = 30_004
CASES = [
    (Model("composite_bert_small"), "eager", Shape(128, 131_072, V)),
    (Model("composite_bert_small"), "compiled", Shape(128, 131_072, V)),
    (Model("composite_bert_small"), "eager", Shape(128, 4096, V)),
    (Model("composite_bert"), "eager", Shape(128, 65_536, V)),
    (Model("convbert_small", "rtd"), "eager", Shape(128, 131_072, V)),
    (Model("taco_small", "mpm"), "eager", Shape(128, 8192, V)),
]
SMOKE = [(Model("bert_tiny", options=(("layers", 1),)), "eager", Shape(16, 64, 100))]
UPDATES, TOP = 2, 10


def run(ctx: Context) -> Iterator[Row]:
    for model, variant, shape in ctx.pick(CASES, SMOKE):
        row: Row = {"program": f"{model.name}, {variant}, {shape}"}
        if not ctx.seconds_left:
            yield {**row, "kernel": "not profiled: out of time"}
            continue
        try:
            yield from ({**row, **line} for line in measure(model, variant, shape, ctx))
        except Exception as error:
            yield {**row, "kernel": describe_error(error)}
        ctx.reset()


def measure(model: Model, variant: str, shape: Shape, ctx: Context) -> list[Row]:
    update = model.make(variant, shape, ctx).update
    for _ in range(ctx.pick(3, 1)):
        update()
    ctx.synchronize()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if ctx.on_gpu else [])]
    with profile(activities=activities) as profiled:
        start = ctx.clock()
        for _ in range(UPDATES):
            update()
        wall = (ctx.clock() - start) / UPDATES
    return kernel_rows(profiled, wall, ctx)


def kernel_rows(profiled: Any, wall: float, ctx: Context) -> list[Row]:
    """All kernels in one line, then the longest; on a CPU, operations instead of kernels."""
    events = profiled.key_averages()
    if ctx.on_gpu:
        events = [e for e in events if e.device_type == DeviceType.CUDA]
    own = {id(e): e.self_device_time_total if ctx.on_gpu else e.self_cpu_time_total for e in events}
    total, calls = sum(own.values()) or 1.0, sum(e.count for e in events)
    longest = sorted(events, key=lambda e: -own[id(e)])[:TOP]
    lines = [("all, of the wall time", calls, total, total / 1e6 / UPDATES / wall)]
    lines += [(e.key[:100], e.count, own[id(e)], own[id(e)] / total) for e in longest]
    return [
        {"kernel": name, "launches": count // UPDATES, "ms": us / 1e3 / UPDATES, "share": share}
        for name, count, us, share in lines
    ]
