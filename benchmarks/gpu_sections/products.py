"""Rates of matrix products and of copying: what the machine can do.

The shapes are those of `composite_bert_small` and `composite_bert` with 131,072 tokens, and pairs
that differ only in whether a dimension is a multiple of 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from harness import Update
from torch import Tensor
from torch.nn import functional as F

from gpu_sections.context import Context, Row
from toolkit.distributed.world import set_tf32

BEST = 8192
"""Rows and columns of the square product that speeds are compared with."""
SHAPES = [
    (131_072, 256, 768),
    (131_072, 256, 1024),
    (131_072, 1024, 256),
    (131_072, 768, 2304),
    (131_072, 768, 3072),
    (131_072, 3072, 768),
    (16_384, 128, 30_004),
    (16_384, 128, 30_016),
    (16_384, 768, 30_004),
    (16_384, 768, 30_016),
    (131_072, 64, 17),
    (131_072, 64, 32),
]
TINY = [(64, 32, 16)]


def best_product(ctx: Context) -> tuple[partial[Tensor], float]:
    """The square bf16 product and its FLOPs."""
    size = ctx.pick(BEST, 128)
    a, b = (torch.randn(size, size, device=ctx.device).bfloat16() for _ in range(2))
    return partial(torch.mm, a, b), 2.0 * size**3


def run(ctx: Context) -> Iterator[Row]:
    product, flops = best_product(ctx)
    size, shapes = ctx.pick(BEST, 128), ctx.pick(SHAPES, TINY)
    best = measure(product, ctx)
    yield product_row("bf16", (size, size, size), best, flops / best)
    for shape in shapes:
        yield product_row("bf16", shape, measure(linear(shape, ctx), ctx), flops / best)
    for mode in ("tf32", "fp32") if ctx.on_gpu else ("fp32",):
        if ctx.on_gpu:
            set_tf32(mode == "tf32")
        square = linear((size // 2,) * 3, ctx, torch.float32)
        yield product_row(mode, (size // 2,) * 3, measure(square, ctx), flops / best)
    x = torch.randn(ctx.pick(2**28, 2**16), device=ctx.device)
    duration = measure(x.clone, ctx)
    moved = 2 * x.nbytes / duration / 1e12
    yield {"operation": f"copy of {x.nbytes >> 20} MiB", "ms": 1e3 * duration, "TB/s": moved}


def linear(
    shape: tuple[int, ...], ctx: Context, dtype: torch.dtype = torch.bfloat16
) -> partial[Tensor]:
    """The product of a linear layer: rows x inner by columns x inner, transposed."""
    rows, inner, columns = shape
    x = torch.randn(rows, inner, device=ctx.device, dtype=dtype)
    return partial(F.linear, x, torch.randn(columns, inner, device=ctx.device, dtype=dtype))


def measure(program: Update, ctx: Context) -> float:
    program()
    return ctx.medians({"": program}, ctx.pick(0.5, 0.0))[""]


def product_row(kind: str, shape: tuple[int, ...], seconds: float, best: float) -> Row:
    rows, inner, columns = shape
    rate = 2 * rows * inner * columns / seconds
    size = 2 if kind == "bf16" else 4
    traffic = size * (rows * inner + inner * columns + rows * columns)
    return {
        "operation": f"{kind} {rows:,} x {inner:,} x {columns:,}",
        "ms": 1e3 * seconds,
        "TFLOP/s": rate / 1e12,
        "share of the best product": rate / best,
        "TB/s": traffic / seconds / 1e12,
    }
