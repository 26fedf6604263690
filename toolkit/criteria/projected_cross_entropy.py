"""Cross-entropy of states @ table.T + bias in chunks of rows, without a stored N x C matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.criteria.criterion import IGNORED, ProjectedClasses, split_rows
from toolkit.nn.ops import cross_entropy
from toolkit.nn.ops.aligned_linear import cast_operands, pad_classes
from toolkit.nn.ops.cross_entropy import cross_entropy_kernel_runs

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
    """Chunks of rows whose logits exist at the same time."""
    size = ROWS_PER_CHUNK.get(states.device.type, ROWS_PER_CHUNK["cuda"])
    for start in range(0, len(states), size):
        rows = slice(start, start + size)
        valid = targets[rows] != IGNORED
        yield Chunk(rows, states[rows], targets[rows].where(valid, 0), valid)


def split_logits(prediction: ProjectedClasses) -> Iterator[Float[Tensor, "n P"]]:
    """The logits of each chunk of rows, as the loss computes them; -inf from column C on."""
    states, table, bias, targets = prediction
    x, weight, offset = pad_classes(*cast_operands(states, table, bias))
    for chunk in split_chunks(x, targets):
        with torch.autocast(states.device.type, enabled=False):
            logits = compute_chunk_logits(chunk, weight, offset, len(table))
        yield logits


def compute_chunk_logits(
    chunk: Chunk, weight: Float[Tensor, "P E"], bias: Float[Tensor, " P"] | None, classes: int
) -> Float[Tensor, "n P"]:
    """The logits of P >= C padded classes; -inf from column C on."""
    logits = F.linear(chunk.states, weight, bias)
    if classes < len(weight):
        logits[:, classes:].fill_(-torch.inf)  # an assignment makes a tensor on the host
    return logits


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
        x, weight, offset = pad_classes(*cast_operands(states, table, bias))
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
                logits = compute_chunk_logits(chunk, weight, offset, len(table))
                total += replace_by_gradient(logits, chunk, len(table), smoothing)
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
    logits: Float[Tensor, "n P"], chunk: Chunk, classes: int, smoothing: float
) -> Float[Tensor, ""]:
    """The loss of a chunk; its gradient takes the place of the logits, in their precision."""
    if cross_entropy_kernel_runs(logits):
        kernel = cross_entropy.replace_by_gradient
        losses: Tensor = kernel(logits, chunk.targets, chunk.valid, classes, smoothing)
        return losses.sum()
    total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
    for rows, targets, valid in split_rows(logits, chunk.targets, chunk.valid):
        log_p = rows.to(total.dtype).log_softmax(-1)
        scores = log_p.gather(-1, targets[:, None])[:, 0]
        if smoothing:
            scores = (1 - smoothing) * scores + smoothing * log_p[:, :classes].mean(-1)
        total -= (scores * valid).sum()
        p = log_p.exp_()
        if smoothing:
            p[:, :classes] -= smoothing / classes
        p.scatter_add_(-1, targets[:, None], p.new_full((len(p), 1), smoothing - 1))
        torch.mul(p, valid[:, None], out=p)
        rows.copy_(p)
    return total


def add_gradients(
    gradients: list[Tensor | None],
    chunk: Chunk,
    of_logits: Float[Tensor, "n P"],
    weight: Float[Tensor, "P E"],
) -> None:
    """Add a chunk's gradients to those of states, table and bias; they are 0 from column C on."""
    of_states, of_table, of_bias = gradients
    if of_states is not None:
        of_states[chunk.rows] = of_logits @ weight
    if of_table is not None:
        of_table += (of_logits.mT @ chunk.states)[: len(of_table)]
    if of_bias is not None:
        of_bias += of_logits.sum(0, dtype=of_bias.dtype)[: len(of_bias)]
