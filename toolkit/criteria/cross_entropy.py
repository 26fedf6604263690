"""Cross-entropy, with optional label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

from collections.abc import Mapping
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
    LazyPrediction,
    MaskedClasses,
    ProjectedClasses,
    Values,
    split_rows,
)
from toolkit.criteria.projected_cross_entropy import projected_cross_entropy
from toolkit.criteria.regression import squared_error


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig(Options, section="criterion"):
    """Options of the criterion cross_entropy."""

    label_smoothing: Rate = 0.0
    """Label smoothing: probability mass spread evenly over all classes; not for regression."""


@register_criterion("cross_entropy", CrossEntropyConfig())
class CrossEntropy(Criterion):
    """-sum_n ((1 - s) log p_n(target_n) + s mean_c log p_n(c)).

    Yes and no are two classes. For a number it is -log N(target; value, 1/2), the squared error up
    to a constant.
    """

    takes_projections = True

    def __init__(self, c: CrossEntropyConfig) -> None:
        super().__init__()
        self.label_smoothing = c.label_smoothing

    def forward(self, predictions: Mapping[str, LazyPrediction]) -> dict[str, Float[Tensor, ""]]:
        return {name: self.total(prediction) for name, prediction in predictions.items()}

    def total(self, prediction: LazyPrediction) -> Float[Tensor, ""]:
        if isinstance(prediction, Binary):
            return self.binary(prediction)
        if isinstance(prediction, Values):
            return squared_error(prediction)
        if isinstance(prediction, ProjectedClasses):
            return projected_cross_entropy(prediction, self.label_smoothing)
        return self.classes(prediction)

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
    """Cross-entropy by blocks of rows, so that their fp32 copies stay in the CPU's cache.

    d/dlogits = softmax(logits) - (1 - s) onehot(target) - s / C, recomputed from the logits:
    nothing of the size of the logits is saved. It is rounded once, at the end: if the target is
    nearly certain, the difference is below the resolution of half precision near 1.
    """

    @staticmethod
    def forward(ctx, logits, targets, smoothing):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(logits, targets)
        ctx.smoothing = smoothing
        total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for rows, target in split_rows(logits, targets):
            log_p = rows.to(total.dtype).log_softmax(-1)
            valid = target != IGNORED
            target_log_p = log_p.gather(-1, (target * valid)[:, None])[:, 0]
            if smoothing:
                target_log_p = (1 - smoothing) * target_log_p + smoothing * log_p.mean(-1)
            total -= (target_log_p * valid).sum()
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        logits, targets = ctx.saved_tensors
        logits_gradient = torch.empty_like(logits)
        for rows, target, out in split_rows(logits, targets, logits_gradient):
            valid = target != IGNORED
            p = rows.to(torch.promote_types(rows.dtype, torch.float32)).softmax(-1)
            if ctx.smoothing:
                p -= ctx.smoothing / logits.shape[-1]
            minus_target = p.new_full((len(target), 1), ctx.smoothing - 1)
            p.scatter_add_(-1, (target * valid)[:, None], minus_target)
            out.copy_(p.mul_((valid * gradient)[:, None]))
        return logits_gradient, None, None
