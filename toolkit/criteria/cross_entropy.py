"""Cross-entropy, with optional label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.config.declared import Options, Rate
from toolkit.criteria.criterion import (
    IGNORED,
    Binary,
    Classes,
    Criterion,
    MaskedClasses,
    Prediction,
    Values,
)
from toolkit.criteria.regression import squared_error

BLOCK = 1 << 18
"""Logits that are worked on together on a CPU: in fp32 a megabyte."""


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig(Options, section="criterion"):
    label_smoothing: Rate = 0.0
    """Label smoothing: probability mass spread evenly over all classes; not for regression."""


@register_criterion("cross_entropy", CrossEntropyConfig())
class CrossEntropy(Criterion):
    """-sum_n ((1 - s) log p_n(target_n) + s mean_c log p_n(c)), summed over the places.

    Yes or no are two classes. Of a number it is -log N(target; value, 1/2), which is its squared
    error but for a constant.
    """

    def __init__(self, c: CrossEntropyConfig) -> None:
        super().__init__()
        self.label_smoothing = c.label_smoothing

    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]:
        return {name: self.total(prediction) for name, prediction in predictions.items()}

    def total(self, prediction: Prediction) -> Float[Tensor, ""]:
        if isinstance(prediction, Binary):
            return self.binary(prediction)
        if isinstance(prediction, Values):
            return squared_error(prediction)
        return self.classes(prediction)

    def binary(self, prediction: Binary) -> Float[Tensor, ""]:
        logits, targets = prediction
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        yes = (1 - self.label_smoothing) * targets.to(logits) + self.label_smoothing / 2
        real = (targets != IGNORED).to(logits)
        return F.binary_cross_entropy_with_logits(logits, yes, weight=real, reduction="sum")

    def classes(self, prediction: Classes) -> Float[Tensor, ""]:
        if isinstance(prediction, MaskedClasses) and self.label_smoothing:
            raise ToolkitError(
                "criterion.label_smoothing must be 0 for predictions with masked classes, but is "
                f"{self.label_smoothing}."
            )
        logits, targets = prediction
        if logits.device.type == "cpu":
            total: Tensor = _CrossEntropy.apply(logits, targets, self.label_smoothing)
            return total
        return F.cross_entropy(
            logits.float(),
            targets,
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )


class _CrossEntropy(torch.autograd.Function):
    """The same a few rows at a time, so that what is in fp32 stays in the processor's cache.

    d/dlogits = softmax(logits) - (1 - s) onehot(target) - s / C, recomputed from the logits:
    nothing of the size of the logits is kept. It is rounded once, at the end: where the target is
    near certain, the difference is less than half precision resolves next to 1.
    """

    @staticmethod
    def forward(ctx, logits, targets, smoothing):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(logits, targets)
        ctx.smoothing = smoothing
        total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for rows, target in split_rows(logits, targets):
            log_p = rows.to(total.dtype).log_softmax(-1)
            real = target != IGNORED
            chosen = log_p.gather(-1, (target * real)[:, None])[:, 0]
            if smoothing:
                chosen = (1 - smoothing) * chosen + smoothing * log_p.mean(-1)
            total -= (chosen * real).sum()
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        logits, targets = ctx.saved_tensors
        of_logits = torch.empty_like(logits)
        for rows, target, out in split_rows(logits, targets, of_logits):
            real = target != IGNORED
            p = rows.to(torch.promote_types(rows.dtype, torch.float32)).softmax(-1)
            if ctx.smoothing:
                p -= ctx.smoothing / logits.shape[-1]
            less = p.new_full((len(target), 1), ctx.smoothing - 1)
            p.scatter_add_(-1, (target * real)[:, None], less)
            out.copy_(p.mul_((real * gradient)[:, None]))
        return of_logits, None, None


def split_rows(logits: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Some rows of each."""
    rows = max(1, BLOCK // max(1, logits.shape[-1]))
    return zip(*(it.split(rows) for it in (logits, *others)), strict=True)
