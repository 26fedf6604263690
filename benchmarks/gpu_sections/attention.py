"""Attention backends that torch chooses, their time, and what a new length costs the host."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import torch
from harness import seconds
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend

from gpu_sections.context import Context, Row

CASES = {
    "plain": (None, 0.0),
    "plain, dropout": (None, 0.1),
    "padding": ("padding", 0.0),
    "padding, dropout": ("padding", 0.1),
    "learned bias": ("bias", 0.0),
    "learned bias, dropout": ("bias", 0.1),
}
"""Name -> mask and dropout rate."""
NEW_LENGTHS = 12


def run(ctx: Context) -> Iterator[Row]:
    batch, length = ctx.pick((256, 128), (2, 16))
    for cudnn in (False, True) if ctx.on_gpu else (False,):
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        try:
            for name, (mask, rate) in CASES.items():
                yield {"case": name, "cuDNN allowed": cudnn, **row(batch, length, mask, rate, ctx)}
            changing = {"case": "plain, a new length each time", "cuDNN allowed": cudnn}
            yield {**changing, "backend": None, "ms": 1e3 * new_lengths(ctx)}
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)


def row(batch: int, length: int, mask: str | None, rate: float, ctx: Context) -> Row:
    q, k, v, bias = tensors(batch, length, mask, ctx)
    backend = torch._fused_sdp_choice(q, k, v, bias, rate, False)
    program = partial(forward_and_backward, q, k, v, bias, rate)
    program()
    milliseconds = 1e3 * ctx.medians({"": program}, ctx.pick(0.3, 0.0))[""]
    return {"backend": SDPBackend(backend).name, "ms": milliseconds}


def tensors(
    batch: int, length: int, mask: str | None, ctx: Context
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """q, k, v of 4 heads of width 64, and what is added to the scores."""
    kind = {"device": ctx.device, "dtype": torch.bfloat16}
    q, k, v = (torch.randn(batch, 4, length, 64, **kind, requires_grad=True) for _ in range(3))
    if mask == "bias":
        return q, k, v, torch.zeros(batch, 4, length, length, **kind, requires_grad=True)
    return q, k, v, torch.zeros(batch, 1, 1, length, **kind) if mask == "padding" else None


def forward_and_backward(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, rate: float) -> None:
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate)
    context.backward(context.detach())


def new_lengths(ctx: Context) -> float:
    """Median seconds of forward and backward where each call has another length."""
    calls = [
        partial(forward_and_backward, *tensors(8, 100 + number, None, ctx), 0.0)
        for number in range(ctx.pick(NEW_LENGTHS, 2))
    ]
    return statistics.median(seconds(call, ctx.clock) for call in calls)
