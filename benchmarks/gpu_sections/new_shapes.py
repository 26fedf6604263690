"""Depthwise convolutions of a new length each time, with cuDNN and with torch's own kernels.

The shapes of training batches vary, and cuDNN may make a plan for each.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import torch
from harness import seconds
from torch import Tensor

from gpu_sections.context import Context, Row

BATCH, WIDTH, TAPS = 64, 256, 9
LENGTH, CALLS = 64, 24


def run(ctx: Context) -> Iterator[Row]:
    try:
        for dtype in (torch.float32, torch.bfloat16):
            for cudnn in (True, False) if ctx.on_gpu else (False,):
                torch.backends.cudnn.enabled = cudnn
                yield {
                    "format": str(dtype).removeprefix("torch."),
                    "cuDNN": cudnn,
                    "same length, ms": 1e3 * median(0, dtype, ctx),
                    "new length, ms": 1e3 * median(1, dtype, ctx),
                }
    finally:
        torch.backends.cudnn.enabled = True


def median(step: int, dtype: torch.dtype, ctx: Context) -> float:
    """Seconds of a forward and a backward pass, each `step` longer than the one before."""
    count = ctx.pick(CALLS, 2)
    calls = [
        partial(forward_and_backward, *tensors(LENGTH + step * number, dtype, ctx))
        for number in range(count + 1)
    ]
    times = [seconds(call, ctx.clock) for call in calls]
    return statistics.median(times[1:])


def tensors(length: int, dtype: torch.dtype, ctx: Context) -> tuple[Tensor, Tensor]:
    kind = {"device": ctx.device, "dtype": dtype, "requires_grad": True}
    return torch.randn(BATCH, length, WIDTH, **kind), torch.randn(WIDTH, 1, TAPS, **kind)


def forward_and_backward(x: Tensor, weight: Tensor) -> None:
    from toolkit.nn.ops.depthwise import depthwise_conv1d

    out = depthwise_conv1d(x, weight, None)
    out.backward(out.detach())
