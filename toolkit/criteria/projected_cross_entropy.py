"""Cross-entropy of states @ table.T + bias in chunks of rows, without a stored N x C matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.criteria.criterion import IGNORED, ProjectedClasses
from toolkit.criteria.rows import split_rows

ROWS_PER_CHUNK = {"cpu": 1024, "cuda": 4096}
"""Device -> rows whose logits exist at a time. With far fewer, adding up the table's gradient would
take longer than computing it."""


def projected_cross_entropy(
    prediction: ProjectedClasses, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """-sum_n ((1 - s) log p_n(target_n) + s mean_c log p_n(c)), p = softmax of the logits.

    The gradients are computed together with the loss, from the logits of the same chunk, and
    multiplied by the incoming gradient in the backward pass (as Liger Kernel, Hsu et al. 2024).
    Products are in autocast's precision, everything else in fp32 at least.
    """
    states, table, bias, targets = prediction
    total: Tensor = _ProjectedCrossEntropy.apply(states, table, bias, targets, smoothing)
    return total


class Chunk(NamedTuple):
    """Some rows of the states, and their targets."""

    rows: slice
    states: Float[Tensor, "n E"]
    targets: Int[Tensor, " n"]
    valid: Bool[Tensor, " n"]


def split_chunks(states: Tensor, targets: Tensor) -> Iterator[Chunk]:
    size = ROWS_PER_CHUNK.get(states.device.type, ROWS_PER_CHUNK["cuda"])
    for start in range(0, len(states), size):
        rows = slice(start, start + size)
        valid = targets[rows] != IGNORED
        yield Chunk(rows, states[rows], targets[rows].where(valid, 0), valid)


def cast_operands(
    states: Tensor, table: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """States, table and bias in autocast's precision."""
    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, table = states.to(dtype), table.to(dtype)
    return states, table, None if bias is None else bias.to(states.dtype)


def split_logits(prediction: ProjectedClasses) -> Iterator[Float[Tensor, "n C"]]:
    """The logits of each chunk of rows, as the loss computes them."""
    states, table, bias, targets = prediction
    x, weight, offset = cast_operands(states, table, bias)
    for chunk in split_chunks(x, targets):
        with torch.autocast(states.device.type, enabled=False):
            logits = F.linear(chunk.states, weight, offset)
        yield logits


class _ProjectedCrossEntropy(torch.autograd.Function):
    """d/dlogits = softmax(logits) - (1 - s) onehot(target) - s / C for the valid rows, else 0."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
    ) -> Tensor:
        x, weight, offset = cast_operands(states, table, bias)
        precise = torch.promote_types(states.dtype, torch.float32)
        total = torch.zeros((), dtype=precise, device=states.device)
        needed = ctx.needs_input_grad[:3]
        gradients: list[Tensor | None] = [
            torch.empty_like(states) if needed[0] else None,
            torch.zeros_like(table, dtype=precise) if needed[1] else None,
            torch.zeros_like(bias, dtype=precise) if bias is not None and needed[2] else None,
        ]
        with torch.autocast(states.device.type, enabled=False):
            for chunk in split_chunks(x, targets):
                logits = F.linear(chunk.states, weight, offset)
                total += replace_by_gradient(logits, chunk, smoothing)
                if any(needed):
                    add_gradients(gradients, chunk, logits, weight)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = [None if it is None else it.dtype for it in (states, table, bias)]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        scaled = (None if it is None else (it * incoming).to(dtype) for it, dtype in pairs)
        return *scaled, None, None


def replace_by_gradient(
    logits: Float[Tensor, "n C"], chunk: Chunk, smoothing: float
) -> Float[Tensor, ""]:
    """The loss of a chunk; its gradient takes the place of the logits, in their precision."""
    total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
    for rows, targets, valid in split_rows(logits, chunk.targets, chunk.valid):
        log_p = rows.to(total.dtype).log_softmax(-1)
        scores = log_p.gather(-1, targets[:, None])[:, 0]
        if smoothing:
            scores = (1 - smoothing) * scores + smoothing * log_p.mean(-1)
        total -= (scores * valid).sum()
        p = log_p.exp_()
        if smoothing:
            p -= smoothing / p.shape[-1]
        p.scatter_add_(-1, targets[:, None], p.new_full((len(p), 1), smoothing - 1))
        torch.mul(p, valid[:, None], out=p)
        rows.copy_(p)
    return total


def add_gradients(
    gradients: list[Tensor | None],
    chunk: Chunk,
    of_logits: Float[Tensor, "n C"],
    weight: Float[Tensor, "C E"],
) -> None:
    """Add a chunk's gradients to those of states, table and bias."""
    of_states, of_table, of_bias = gradients
    if of_states is not None:
        of_states[chunk.rows] = of_logits @ weight
    if of_table is not None:
        of_table += of_logits.mT @ chunk.states
    if of_bias is not None:
        of_bias += of_logits.sum(0, dtype=of_bias.dtype)
