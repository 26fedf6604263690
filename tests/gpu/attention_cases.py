"""The Triton kernels of attention with learned taps against the equation in double precision,
and their dropout: what is kept, and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.nn.ops.kernel_inputs import OffsetTables, SentenceRows
from toolkit.nn.ops.relative_attention import relative_attention

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STEP = 1e-3
"""Of differences that approximate slopes."""
TABLES = {
    "none": (),
    "bias": ("bias",),
    "query": ("query",),
    "key": ("key",),
    "all": ("bias", "query", "key"),
}


@dataclass(frozen=True)
class AttentionCase:
    """Shapes, tables and layout of one call."""

    lengths: tuple[int, ...]
    heads: int = 2
    width: int = 16
    offsets: int = 7
    tables: str = "all"
    dtype: str = "fp32"
    positions: str = ""
    """Position ids: none, or one of POSITIONS."""
    stride: int = 0
    """Rows of a sentence with padding; 0: packed sentences."""
    shared: bool = False
    """Whether heads share the tables of queries and keys."""
    parts: int = 3
    causal: bool = False
    dropout: float = 0.0

    @property
    def name(self) -> str:
        default = AttentionCase(())
        changed = [
            f"{name}={value}" if not isinstance(value, str) else value
            for name, value in vars(self).items()
            if value != getattr(default, name) and name != "lengths"
        ]
        return " ".join(["+".join(map(str, self.lengths)), *changed])


class Inputs(NamedTuple):
    qkv: Tensor
    tables: OffsetTables
    rows: SentenceRows
    gradient: Tensor


POSITIONS: dict[str, Callable[[int], Tensor]] = {
    "in order": torch.arange,
    "permuted": torch.randperm,
    "hidden": lambda n: torch.arange(n).where(torch.rand(n) > 0.3, HIDDEN_POSITION),
    "repeated": lambda n: torch.randint(0, max(1, n // 3), (n,)),
    "jumps": lambda n: torch.randint(0, 2, (n,)).cumsum(0) * 1000 + torch.randperm(n) - 1,
}


def make_inputs(case: AttentionCase) -> Inputs:
    torch.manual_seed(0)
    dtype, lengths = DTYPES[case.dtype], torch.tensor(case.lengths, dtype=torch.int32)
    strides = torch.full_like(lengths, case.stride) if case.stride else lengths
    starts, count = strides.cumsum(0, dtype=torch.int32) - strides, int(strides.sum())
    qkv = torch.randn(count, case.parts, case.heads, case.width).to(dtype)
    heads = 1 if case.shared else case.heads
    shapes = {
        "bias": (case.heads, case.offsets),
        "query": (heads, case.width, case.offsets),
        "key": (heads, case.width, case.offsets),
    }
    named = {name: torch.randn(shapes[name]) for name in TABLES[case.tables]}
    positions = None
    if case.positions:
        make = POSITIONS[case.positions]
        positions = torch.cat([make(int(stride)) for stride in strides])
    rows = SentenceRows(starts, lengths, max(case.lengths), positions, not case.stride)
    root = case.width**0.5  # tables divided by it are numbers of the format
    rounded = {n: t if n == "bias" else root * t.to(dtype).float() for n, t in named.items()}
    tables = OffsetTables(**rounded)  # in fp32 like parameters, whatever autocast computes in
    return Inputs(qkv, tables, rows, torch.randn(count, case.heads, case.width).to(dtype))


def exact_attention(
    qkv: Tensor,
    tables: OffsetTables,
    rows: SentenceRows,
    *,
    scale: float,
    causal: bool,
    kept: Tensor | None = None,
) -> Tensor:
    """The equation, by sentence and head; `kept` (N, H, T) are the factors of dropout."""
    out = torch.zeros_like(qkv[:, 0])
    radius = tables.offsets // 2
    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        own = slice(start, start + length)
        ids = torch.arange(length) if rows.positions is None else rows.positions[own]
        tap = (ids[None, :] - ids[:, None]).clamp(-radius, radius) + radius
        for head in range(qkv.shape[2]):
            q, k, v = qkv[own, :3, head].unbind(1)
            scores = scale * q @ k.T
            if tables.bias is not None:
                scores = scores + tables.bias[head][tap]
            if tables.query is not None:
                table = tables.query[head % len(tables.query)]
                scores = scores + (q @ table).gather(1, tap) / q.shape[-1] ** 0.5
            if tables.key is not None:
                table = tables.key[head % len(tables.key)]
                by_key = (k @ table).gather(1, 2 * radius - tap.T).T
                scores = scores + by_key / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
            weights = scores.softmax(-1)
            if kept is not None:
                weights = weights * kept[own, head, :length]
            out[own, head] = weights @ v
    return out


def leaves(inputs: Inputs, dtype: torch.dtype | None = None) -> tuple[Inputs, list[Tensor]]:
    """Copies that have gradients, and a list of them."""

    def copy(t: Tensor | None) -> Tensor | None:
        return None if t is None else t.detach().to(dtype or t.dtype, copy=True).requires_grad_()

    qkv, tables = copy(inputs.qkv), OffsetTables(*map(copy, inputs.tables))
    gradient = inputs.gradient.to(dtype or inputs.gradient.dtype)
    variables = [t for t in (qkv, *tables) if t is not None]
    return Inputs(qkv, tables, inputs.rows, gradient), variables


def run_kernel(inputs: Inputs, case: AttentionCase, seed: int = 1) -> list[Tensor]:
    """The context and all gradients."""
    copy, variables = leaves(inputs)
    torch.manual_seed(seed)
    out = relative_attention(
        *(copy.qkv, copy.tables, copy.rows),
        **{"scale": case.width**-0.5, "dropout": case.dropout, "causal": case.causal},
    )
    return [out.detach(), *torch.autograd.grad(out, variables, copy.gradient)]


def run_exact(inputs: Inputs, case: AttentionCase, kept: Tensor | None = None) -> list[Tensor]:
    copy, variables = leaves(inputs, torch.float64)
    out = exact_attention(
        *(copy.qkv, copy.tables, copy.rows),
        **{"scale": case.width**-0.5, "causal": case.causal, "kept": kept},
    )
    return [out.detach(), *torch.autograd.grad(out, variables, copy.gradient)]


def compare(case: AttentionCase) -> list[float]:
    """Errors of the context and of all gradients, as fractions of the greatest number or of 1."""
    inputs = make_inputs(case)
    pairs = zip(run_kernel(inputs, case), run_exact(inputs, case), strict=True)
    return [relative_error(found, exact) for found, exact in pairs]


def relative_error(found: Tensor, exact: Tensor) -> float:
    assert found.isfinite().all()
    return float((found.double() - exact).abs().max() / exact.abs().max().clamp_min(1.0))


def find_kept(case: AttentionCase, seed: int = 1) -> Tensor:
    """Factors of the weights of each query, (N, H, T): contexts of equal weights and unit values.

    They depend on the seed and on the query, head and key only.
    """
    rows, heads, keys = make_inputs(case).rows, case.heads, max(case.lengths)
    places = torch.cat([torch.arange(length) for length in case.lengths])
    lengths = rows.lengths.repeat_interleave(rows.lengths)
    qkv = torch.zeros(len(places), 3, heads, keys)
    qkv[:, 2] = torch.eye(keys)[places][:, None]
    torch.manual_seed(seed)
    context = relative_attention(qkv, OffsetTables(), rows, scale=1.0, dropout=case.dropout)
    return context * lengths[:, None, None]


def compare_dropped(case: AttentionCase) -> list[float]:
    """Errors of the context and of all gradients, where the equation drops the same weights."""
    inputs, kept = make_inputs(case), find_kept(case)
    pairs = zip(run_kernel(inputs, case), run_exact(inputs, case, kept), strict=True)
    return [relative_error(found, exact) for found, exact in pairs]


def repeat_dropped(case: AttentionCase) -> tuple[bool, bool]:
    """Whether a second run has the same bits, and whether one with another seed has."""
    inputs = make_inputs(case)
    first, second = run_kernel(inputs, case), run_kernel(inputs, case)
    other = run_kernel(inputs, case, seed=2)
    return all(map(torch.equal, first, second)), torch.equal(first[0], other[0])


def compare_slopes(case: AttentionCase) -> tuple[float, float]:
    """The slope of the context's product with the gradient in a random direction, and the
    difference of two forward passes with the same seed.
    """
    inputs = make_inputs(case)
    gradients = run_kernel(inputs, case)[1:]
    torch.manual_seed(4)
    directions = [torch.randn_like(t) for t in gradients]

    def value(step: float) -> float:
        moved, variables = leaves(inputs)
        with torch.no_grad():
            for variable, direction in zip(variables, directions, strict=True):
                variable += step * direction
        out = run_kernel(moved, case)[0]
        return float((out.double() * inputs.gradient).sum())

    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    return slope, (value(STEP) - value(-STEP)) / (2 * STEP)
