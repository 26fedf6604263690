"""Cross-entropy, with optional label smoothing (Szegedy et al. 2016, section 7).

That of states @ table.T + bias is computed in chunks of rows, without a stored N x C matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.config.declared import NonNegativeFloat, Options, Rate
from toolkit.criteria import (
    IGNORED,
    Binary,
    Classes,
    Criterion,
    LazyPrediction,
    MaskedClasses,
    ProjectedClasses,
    Values,
    split_rows,
)
from toolkit.nn.ops import linear
from toolkit.nn.ops.kernels import triton_runs
from toolkit.nn.ops.linear import cast_operands, pad_classes, soft_cap


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig(Options, section="criterion"):
    """Options of the criterion cross_entropy."""

    label_smoothing: Rate = 0.0
    """Label smoothing: probability mass spread evenly over all classes; not for regression."""
    z_loss: NonNegativeFloat = 0.0
    """Weight of the squared logarithm of the softmax's denominator in training, which keeps logits
    of classes small; 1e-4 in PaLM (Chowdhery et al. 2022, section 5)."""


@register_criterion("cross_entropy", CrossEntropyConfig())
class CrossEntropy(Criterion):
    """-sum_n ((1 - s) log p_n(target_n) + s mean_c log p_n(c)) + z sum_n log^2 sum_c exp(logit_nc),
    the last sum only where gradients are computed, so that losses of validation are comparable.

    Yes and no are two classes. For a number it is the squared error.
    """

    takes_projections = True

    def __init__(self, c: CrossEntropyConfig) -> None:
        super().__init__()
        self.label_smoothing, self.z_loss = c.label_smoothing, c.z_loss

    def forward(self, predictions: Mapping[str, LazyPrediction]) -> dict[str, Float[Tensor, ""]]:
        return {name: self.total(prediction) for name, prediction in predictions.items()}

    def total(self, prediction: LazyPrediction) -> Float[Tensor, ""]:
        if isinstance(prediction, Binary):
            return self.binary(prediction)
        if isinstance(prediction, Values):
            return squared_error(prediction)
        if isinstance(prediction, ProjectedClasses):
            return _ProjectedCrossEntropy.apply(*prediction, self.label_smoothing, self.z())
        return self.classes(prediction)

    def z(self) -> float:
        """Weight of the squared logarithms."""
        return self.z_loss if torch.is_grad_enabled() else 0.0

    def binary(self, prediction: Binary) -> Float[Tensor, ""]:
        logits, targets = prediction
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        yes = (1 - self.label_smoothing) * targets.to(logits) + self.label_smoothing / 2
        weight = (targets != IGNORED).to(logits)
        return F.binary_cross_entropy_with_logits(logits, yes, weight=weight, reduction="sum")

    def classes(self, prediction: Classes) -> Float[Tensor, ""]:
        if isinstance(prediction, MaskedClasses) and self.label_smoothing:
            raise ToolkitError(
                "criterion.label_smoothing must be 0 for predictions with masked classes, but is "
                f"{self.label_smoothing}."
            )
        logits, targets = prediction
        if logits.device.type == "cpu":
            return _CrossEntropy.apply(logits, targets, self.label_smoothing, self.z())
        logits = logits.float()
        loss = F.cross_entropy(
            logits,
            targets,
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        if z := self.z():
            loss = loss + z * (logits.logsumexp(-1).square() * (targets != IGNORED)).sum()
        return loss


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropy by blocks of rows, so that their fp32 copies stay in the CPU's cache.

    d/dlogits = (1 + 2 z log Z) softmax(logits) - (1 - s) onehot(target) - s / C, recomputed from
    the logits and rounded once, at the end: nothing of the size of the logits is saved.
    """

    @staticmethod
    def forward(ctx, logits, targets, smoothing, z):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(logits, targets)
        ctx.smoothing, ctx.z = smoothing, z
        total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for rows, target in split_rows(logits, targets):
            log_p = rows.to(total.dtype).log_softmax(-1)
            valid = target != IGNORED
            target_log_p = log_p.gather(-1, (target * valid)[:, None])[:, 0]
            if smoothing:
                target_log_p = (1 - smoothing) * target_log_p + smoothing * log_p.mean(-1)
            total -= (target_log_p * valid).sum()
            if z:
                total += z * (rows.to(total.dtype).logsumexp(-1).square() * valid).sum()
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        logits, targets = ctx.saved_tensors
        logits_gradient = torch.empty_like(logits)
        for rows, target, out in split_rows(logits, targets, logits_gradient):
            valid = target != IGNORED
            rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
            p = rows.softmax(-1)
            if ctx.z:
                p *= 1 + 2 * ctx.z * rows.logsumexp(-1, keepdim=True)
            if ctx.smoothing:
                p -= ctx.smoothing / logits.shape[-1]
            minus_target = p.new_full((len(target), 1), ctx.smoothing - 1)
            p.scatter_add_(-1, (target * valid)[:, None], minus_target)
            out.copy_(p.mul_((valid * gradient)[:, None]))
        return logits_gradient, None, None, None


ROWS_PER_CHUNK = {"cpu": 1024, "cuda": 4096}
"""Device -> rows whose logits exist at a time. With far fewer, adding up the table's gradient would
take longer than computing it."""


def split_chunks(states: Tensor, targets: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Rows whose logits exist at the same time, their states, and their targets, where valid."""
    size = ROWS_PER_CHUNK.get(states.device.type, ROWS_PER_CHUNK["cuda"])
    valid = targets != IGNORED
    targets = targets * valid
    for start in range(0, len(states), size):
        rows = slice(start, start + size)
        yield rows, states[rows], targets[rows], valid[rows]


def split_logits(prediction: ProjectedClasses) -> Iterator[Float[Tensor, "n P"]]:
    """The logits of each chunk of rows, as the loss computes them; -inf from column C on."""
    states, table, bias, targets, cap = prediction
    x, weight, offset = pad_classes(*cast_operands(states, table, bias))
    for _, chunk, _, _ in split_chunks(x, targets):
        with torch.autocast(states.device.type, enabled=False):
            logits = compute_chunk_logits(chunk, weight, offset, len(table), cap)
        yield logits


def compute_chunk_logits(
    states: Float[Tensor, "n E"],
    weight: Float[Tensor, "P E"],
    bias: Float[Tensor, " P"] | None,
    classes: int,
    cap: float | None,
) -> Float[Tensor, "n P"]:
    """The logits of P >= C padded classes; -inf from column C on."""
    logits = soft_cap(F.linear(states, weight, bias), cap)
    if classes < len(weight):
        logits[:, classes:].fill_(-torch.inf)  # an assignment makes a tensor on the host
    return logits


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The same of logits that are not stored: the gradients are computed with the loss, from the
    logits of the same chunk (as Liger Kernel, Hsu et al. 2024). Products are in autocast's
    precision, everything else in fp32 at least.
    """

    @staticmethod
    def forward(ctx, states, table, bias, targets, cap, smoothing, z):  # type: ignore[no-untyped-def]
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
            for rows, chunk, correct, valid in split_chunks(x, targets):
                logits = compute_chunk_logits(chunk, weight, offset, len(table), cap)
                slope = 1 - (logits / cap).square() if cap else None  # of the soft cap
                total += replace_by_gradient(logits, correct, valid, len(table), smoothing, z)
                if slope is not None:
                    logits.mul_(slope.clamp_(min=0))  # 0 from column C on
                if any(needed):
                    add_gradients(gradients, rows, chunk, logits, weight)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = [None if it is None else it.dtype for it in (states, table, bias)]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, incoming):  # type: ignore[no-untyped-def]
        pairs = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        scaled = (None if it is None else (it * incoming).to(dtype) for it, dtype in pairs)
        return *scaled, None, None, None, None


def replace_by_gradient(
    logits: Float[Tensor, "n P"],
    targets: Int[Tensor, " n"],
    valid: Bool[Tensor, " n"],
    classes: int,
    smoothing: float,
    z: float,
) -> Float[Tensor, ""]:
    """The loss of a chunk; its gradient takes the place of the logits, in their precision."""
    if triton_runs(logits.device, logits.dtype) and not z:
        return linear.replace_by_gradient(logits, targets, valid, classes, smoothing).sum()
    total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
    for rows, correct, counts in split_rows(logits, targets, valid):
        log_p = rows.to(total.dtype).log_softmax(-1)
        scores = log_p.gather(-1, correct[:, None])[:, 0]
        if smoothing:
            scores = (1 - smoothing) * scores + smoothing * log_p[:, :classes].mean(-1)
        total -= (scores * counts).sum()
        p = log_p.exp_()
        if z:
            log_z = rows.to(total.dtype).logsumexp(-1, keepdim=True)
            total += z * (log_z[:, 0].square() * counts).sum()
            p *= 1 + 2 * z * log_z
        if smoothing:
            p[:, :classes] -= smoothing / classes
        p.scatter_add_(-1, correct[:, None], p.new_full((len(p), 1), smoothing - 1))
        torch.mul(p, counts[:, None], out=p)
        rows.copy_(p)
    return total


def add_gradients(
    gradients: list[Tensor | None],
    rows: slice,
    states: Float[Tensor, "n E"],
    of_logits: Float[Tensor, "n P"],
    weight: Float[Tensor, "P E"],
) -> None:
    """Add a chunk's gradients to those of states, table and bias; they are 0 from column C on."""
    of_states, of_table, of_bias = gradients
    if of_states is not None:
        of_states[rows] = of_logits @ weight
    if of_table is not None:
        of_table += (of_logits.mT @ states)[: len(of_table)]
    if of_bias is not None:
        of_bias += of_logits.sum(0, dtype=of_bias.dtype)[: len(of_bias)]


def squared_error(prediction: Values) -> Float[Tensor, ""]:
    """sum_n (value_n - target_n)^2 over the targets that are not NaN."""
    values, targets = prediction
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    valid = ~targets.isnan()
    difference = values - torch.where(valid, targets.to(values), values.detach())
    return (difference * valid).square().sum()
