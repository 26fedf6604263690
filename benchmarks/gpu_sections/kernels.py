"""Every Triton kernel against its plain form, and other choices between two forms.

Rows have errors, repeatability and time, with gradients.

Errors are the greatest difference from the plain form in double precision, divided by the greatest
value there. A new kernel is one more line of CASES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from harness import Update
from torch import Tensor
from torch.nn import functional as F

from gpu_sections.attention_kernels import (
    attention_shapes,
    map_shapes,
    mixed_attention,
    relative_attention,
)
from gpu_sections.context import Context, Row

Function = Callable[..., Tensor]
BOUNDS = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Case(NamedTuple):
    name: str
    functions: Callable[[], tuple[Function, Function]]
    """The kernel and its plain form, or a first and a second choice, of the same tensors."""
    shapes: Sequence[tuple[int, ...]]
    """Of these tensors, all of which have gradients."""
    speed: bool = False
    """Whether it is large enough to be timed."""
    rounding: float = 1.0
    """How much larger its errors may be: gradients of tables are sums that nearly cancel."""


def dynamic_convolution() -> tuple[Function, Function]:
    from toolkit.nn.ops.banded_convolution import _BandedConvolution
    from toolkit.nn.ops.kernels.banded_convolution import triton_dynamic_convolution

    return triton_dynamic_convolution, _BandedConvolution.apply


def depthwise_convolution() -> tuple[Function, Function]:
    from toolkit.nn.ops.kernels.depthwise import triton_depthwise_convolution

    return partial(triton_depthwise_convolution, bias=None), convolve_channels_first


def channels_last() -> tuple[Function, Function]:
    """By cuDNN, and by torch's own kernel, which needs another order of the channels."""
    return convolve_channels_last, convolve_channels_first


def convolve_channels_first(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv1d(x.mT, weight, None, 1, "same", 1, len(weight)).mT


def convolve_channels_last(x: Tensor, weight: Tensor) -> Tensor:
    from toolkit.nn.ops.convolution import depthwise_conv1d

    return depthwise_conv1d(x, weight, None)


def gelu_of_a_linear_map() -> tuple[Function, Function]:
    """With the gradient of a bias that its input contains."""
    from toolkit.nn.ops.bias_sums import gelu

    return gelu, lambda y, bias: F.gelu(y + (bias - bias.detach()))


CASES = [
    Case("dynamic convolution", dynamic_convolution, [(2, 3, 1, 9), (2, 3, 1, 64)]),
    Case("dynamic convolution", dynamic_convolution, [(2, 3, 33, 9), (2, 3, 33, 64)]),
    Case("dynamic convolution", dynamic_convolution, [(3, 2, 129, 17), (3, 2, 129, 54)]),
    Case("dynamic convolution", dynamic_convolution, [(2, 2, 70, 31), (2, 2, 70, 80)]),
    Case("dynamic convolution", dynamic_convolution, [(512, 2, 128, 9), (512, 2, 128, 64)], True),
    Case("dynamic convolution", dynamic_convolution, [(64, 6, 512, 9), (64, 6, 512, 64)], True),
    Case("gelu of a linear map", gelu_of_a_linear_map, [(2, 33, 24), (24,)]),
    Case("gelu of a linear map", gelu_of_a_linear_map, [(512, 128, 3072), (3072,)], True, 4),
    Case("depthwise convolution", depthwise_convolution, [(2, 33, 24), (24, 1, 9)]),
    Case("depthwise convolution", depthwise_convolution, [(1024, 128, 256), (256, 1, 9)], True),
    Case("depthwise convolution", depthwise_convolution, [(512, 128, 768), (768, 1, 9)], True),
    Case("depthwise convolution", depthwise_convolution, [(16, 4096, 768), (768, 1, 9)], True),
    Case("depthwise, channels last", channels_last, [(2, 33, 24), (24, 1, 9)]),
    Case("depthwise, channels last", channels_last, [(1024, 128, 256), (256, 1, 9)], True),
    Case("depthwise, channels last", channels_last, [(512, 128, 768), (768, 1, 9)], True),
    Case("relative attention", relative_attention, attention_shapes(2, 33, 2, 20), rounding=4),
    Case("relative attention", relative_attention, attention_shapes(3, 130, 2, 64), rounding=4),
    Case("relative attention", relative_attention, attention_shapes(512, 128, 4, 64), True, 4),
    Case("relative attention", relative_attention, attention_shapes(128, 128, 12, 64), True, 4),
    Case("relative attention", relative_attention, attention_shapes(64, 512, 4, 64), True, 4),
    Case("mixed attention", mixed_attention, map_shapes(2, 19, 4, 2), rounding=4),
    Case("mixed attention", mixed_attention, map_shapes(32, 128, 12, 6), True, 4),
    Case("mixed attention", mixed_attention, map_shapes(4, 512, 12, 6), True, 4),
]


def run(ctx: Context) -> Iterator[Row]:
    formats = ctx.pick([*BOUNDS], [torch.float16])
    smallest = {case.name: case for case in reversed(CASES)}
    for case in smallest.values() if ctx.smoke else CASES:
        for dtype in formats:  # Triton's interpreter misreads products of bf16
            yield measure(case, dtype, ctx)


def measure(case: Case, dtype: torch.dtype, ctx: Context) -> Row:
    torch.manual_seed(0)
    kernel, plain = case.functions()
    tensors = [torch.randn(s, device=ctx.device).to(dtype) for s in case.shapes]
    exact = results(plain, [t.double() for t in tensors])
    found, again, plainly = (results(f, tensors) for f in (kernel, kernel, plain))
    errors = greatest_errors(found, exact)
    row: Row = {
        "kernel": case.name,
        "shapes": ", ".join(" x ".join(map(str, shape)) for shape in case.shapes),
        "format": str(dtype).removeprefix("torch."),
        "right": max(errors) <= BOUNDS[dtype] * case.rounding,
        "error of the output": errors[0],
        "error of gradients": max(errors[1:]),
        "errors of the plain form": max(greatest_errors(plainly, exact)),
        "same bits twice": all(map(torch.equal, found, again)),
    }
    if case.speed and ctx.on_gpu:
        weights = make_weights(found[0])
        programs = {
            name: record(partial(results, function, tensors, weights))
            for name, function in (("k", kernel), ("p", plain))
        }
        times = ctx.medians(programs, 0.5)
        row |= {"kernel ms": 1e3 * times["k"], "plain ms": 1e3 * times["p"]}
    return row


def results(
    function: Function, tensors: Sequence[Tensor], weights: Tensor | None = None
) -> list[Tensor]:
    """The output, and gradients of its sum weighted by fixed numbers."""
    inputs = [t.detach().requires_grad_() for t in tensors]
    out = function(*inputs)
    weights = make_weights(out) if weights is None else weights
    return [out.detach(), *torch.autograd.grad(out, inputs, weights)]


def make_weights(out: Tensor) -> Tensor:
    return torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out.dtype)


def record(program: Update) -> Update:
    """A CUDA graph of the program, which has run before: replays take no time on the host."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program()
    return graph.replay


def greatest_errors(found: Sequence[Tensor], exact: Sequence[Tensor]) -> list[float]:
    return [greatest_error(a, b) for a, b in zip(found, exact, strict=True)]


def greatest_error(found: Tensor, exact: Tensor) -> float:
    """The greatest difference, divided by the greatest exact value.

    A number beyond the format's range is right if it is the infinity that it rounds to.
    """
    rounded = exact.to(found.dtype)
    difference = (found.double() - exact).abs().masked_fill(found.eq(rounded), 0.0)
    return float(difference.max() / exact.abs().max().clamp(min=1e-30))
