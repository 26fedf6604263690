"""Depthwise convolutions of a new length each time: the toolkit's kernel, torch's, and cuDNN's.

The shapes of batches vary. Torch calls cuDNN if channels are last, and cuDNN plans each new shape.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial

import torch
from harness import seconds
from torch import Tensor

from gpu_sections.context import Context, Row
from gpu_sections.kernels import convolve_channels_first, convolve_channels_last

Form = Callable[[Tensor, Tensor], Tensor]
BATCH, LENGTH, WIDTH, TAPS = 64, 64, 256, 9
CALLS = 24


def run(ctx: Context) -> Iterator[Row]:
    for dtype in (torch.float32, torch.bfloat16):
        for form in forms(ctx):
            yield {
                "format": str(dtype).removeprefix("torch."),
                "form": form.__name__.removeprefix("convolve_").replace("_", " "),
                "same length, ms": 1e3 * median(form, 0, dtype, ctx),
                "new length, ms": 1e3 * median(form, 1, dtype, ctx),
            }


def forms(ctx: Context) -> list[Form]:
    plain = [convolve_channels_first, convolve_channels_last]
    return [convolve_by_kernel, *plain] if ctx.on_gpu else plain


def median(form: Form, step: int, dtype: torch.dtype, ctx: Context) -> float:
    """Seconds of a forward and a backward pass, each `step` longer than the one before."""
    count = ctx.pick(CALLS, 2)
    calls = [
        partial(forward_and_backward, form, *tensors(LENGTH + step * number, dtype, ctx))
        for number in range(count + 1)
    ]
    times = [seconds(call, ctx.clock) for call in calls]
    return statistics.median(times[1:])


def tensors(length: int, dtype: torch.dtype, ctx: Context) -> tuple[Tensor, Tensor]:
    batch, width = ctx.pick((BATCH, WIDTH), (2, 16))
    kind = {"device": ctx.device, "dtype": dtype, "requires_grad": True}
    return torch.randn(batch, length, width, **kind), torch.randn(width, 1, TAPS, **kind)


def forward_and_backward(form: Form, x: Tensor, weight: Tensor) -> None:
    out = form(x, weight)
    out.backward(out.detach())


def convolve_by_kernel(x: Tensor, weight: Tensor) -> Tensor:
    from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

    return triton_depthwise_convolution(x, weight, None)
