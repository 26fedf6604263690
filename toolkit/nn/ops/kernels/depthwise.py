"""Depthwise convolution as Triton kernels for GPUs, registered operations.

B batch   S positions   D channels   R taps, 2 * radius + 1   P programs over positions

Torch gives them to cuDNN, which plans each new shape; these are compiled for a number of taps. Sums
are in fp32, in an order that depends only on the shape.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from toolkit.nn.ops.kernels import define

ROWS = 32
"""Positions that a program holds at a time."""
CHANNELS = 64
CHUNK = 128
"""Positions whose gradients of the weights a program sums."""


def triton_depthwise_convolution(
    x: Float[Tensor, "B S D"], weight: Float[Tensor, "D 1 R"], bias: Float[Tensor, " D"] | None
) -> Float[Tensor, "B S D"]:
    """y_s = sum_r weight_r x_(s+r) + bias by channel, with zeros beyond both ends."""
    return convolve(x.contiguous(), weight.contiguous(), bias)


@triton.jit
@no_type_check  # Triton compiles the source, so the function must not be wrapped
def _convolve(
    x, weight, bias, y, length, width,
    TAPS: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}."""
    sentence = tl.program_id(0).to(tl.int64) * length
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    exists = channel < width
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    if bias is not None:
        total += tl.load(bias + channel, mask=exists, other=0.0).to(tl.float32)[None, :]
    for tap in range(TAPS):
        neighbor = row + (tap - TAPS // 2)
        inside = ((neighbor >= 0) & (neighbor < length))[:, None] & exists[None, :]
        place = (sentence + neighbor)[:, None] * width + channel[None, :]
        near = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(weight + channel * TAPS + tap, mask=exists, other=0.0).to(tl.float32)
        total += factor[None, :] * near
    place = (sentence + row)[:, None] * width + channel[None, :]
    tl.store(y + place, total, mask=(row < length)[:, None] & exists[None, :])


@triton.jit
@no_type_check
def _correlate(
    gradient, x, sums, length, width,
    TAPS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """sums_{c,m} = sum_i g_{i,c} x_{i+m,c} over the positions i of a chunk."""
    sentence = tl.program_id(0).to(tl.int64) * length
    first = tl.program_id(1) * CHUNK
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    exists = channel < width
    program = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    sums += (program * width + channel) * TAPS
    for tap in range(TAPS):
        total = tl.zeros((ROWS, CHANNELS), tl.float32)
        for start in range(first, tl.minimum(first + CHUNK, length), ROWS):
            row = start + tl.arange(0, ROWS)
            neighbor = row + (tap - TAPS // 2)
            own = (row < length)[:, None] & exists[None, :]
            inside = own & ((neighbor >= 0) & (neighbor < length))[:, None]
            place = (sentence + row)[:, None] * width + channel[None, :]
            g = tl.load(gradient + place, mask=own, other=0.0).to(tl.float32)
            place = (sentence + neighbor)[:, None] * width + channel[None, :]
            total += g * tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(sums + tap, tl.sum(total, 0), mask=exists)


@define(
    "toolkit::depthwise_convolution", schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor"
)
def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y_{i,c} = b_c + sum_m w_{c,m} x_{i+m,c}."""
    (count, length, width), y = x.shape, torch.empty_like(x)
    if x.numel():
        grid = (count, triton.cdiv(length, ROWS), triton.cdiv(width, CHANNELS))
        _convolve[grid](x, weight, bias, y, length, width, weight.shape[-1], ROWS, CHANNELS)
    return y


@define("toolkit::correlate_channels", schema="(Tensor gradient, Tensor x, SymInt taps) -> Tensor")
def correlate(gradient: Tensor, x: Tensor, taps: int) -> Tensor:
    """The gradient of the weights in parts, to be added up."""
    (count, length, width), sums = x.shape, allocate_sums(gradient, x, taps)
    if x.numel():
        grid = (count, triton.cdiv(length, CHUNK), triton.cdiv(width, CHANNELS))
        _correlate[grid](gradient, x, sums, length, width, taps, CHUNK, ROWS, CHANNELS)
    return sums


convolve.register_fake(lambda x, weight, bias: torch.empty_like(x))


@correlate.register_fake
def allocate_sums(gradient: Tensor, x: Tensor, taps: int) -> Float[Tensor, "P D 1 R"]:
    """Sums by chunk, channel and tap, in fp32."""
    count, length, width = x.shape
    programs = count * ((length + CHUNK - 1) // CHUNK)
    return x.new_empty(programs, width, 1, taps, dtype=torch.float32)


def save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    """Save x and the weights for the backward pass."""
    ctx.save_for_backward(*inputs[:2])


def differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of x, of the weights, and of the bias if there is one."""
    x, weight = ctx.saved_tensors
    gradient = gradient.contiguous()
    of_x = convolve(gradient, weight.flip(-1), None)
    of_weight = correlate(gradient, x, weight.shape[-1]).sum(0).to(weight.dtype)
    if not ctx.needs_input_grad[2]:
        return of_x, of_weight, None
    return of_x, of_weight, gradient.sum((0, 1), dtype=torch.float32).to(weight.dtype)


def convolution_flops(x: torch.Size, weight: torch.Size, *rest: object, **named: object) -> int:
    """A multiply-add for each tap and channel."""
    return 2 * x.numel() * weight[-1]


def correlation_flops(gradient: torch.Size, x: torch.Size, taps: int, **named: object) -> int:
    """FLOPs of the gradient of the weights."""
    return 2 * x.numel() * taps


convolve.register_autograd(differentiate, setup_context=save_inputs)
register_flop_formula(torch.ops.toolkit.depthwise_convolution)(convolution_flops)
register_flop_formula(torch.ops.toolkit.correlate_channels)(correlation_flops)
