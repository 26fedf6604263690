"""Divergences from other scores: those of teachers, or of a second pass with other dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.config.declared import Fraction, PositiveFloat
from toolkit.criteria import IGNORED, Classes, LazyPrediction, compute_logits
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(CrossEntropyConfig):
    """Options of the criterion distillation."""

    teachers: list[str] = field(default_factory=list)
    """Checkpoints, or save folders, of models with the same task and vocabulary, whose scores are
    averaged."""
    teacher_weight: Fraction = 0.5
    """Weight w of the teachers in the loss; that of the correct classes is 1 - w."""
    temperature: PositiveFloat = 2.0
    """Divisor t of all scores in the comparison with the teachers."""


@register_criterion("distillation", DistillationConfig())
class Distillation(CrossEntropy):
    """(1 - w) CE + w t^2 sum_n KL(softmax(u_n / t) || softmax(z_n / t)), with the mean u of the
    logits of all teachers (Hinton et al. 2015, section 2; several as in BabyLlama, Timiryasov and
    Tastet 2023). CE is `CrossEntropy`, alone without gradients. Teachers have no dropout.
    """

    takes_projections, allows_cuda_graphs = False, False

    def __init__(self, c: DistillationConfig) -> None:
        super().__init__(c)
        self.weight, self.temperature = c.teacher_weight, c.temperature
        self.teachers: Sequence[Any] = ()
        """Learners in evaluation mode; training loads them."""
        self.taught: dict[str, Tensor] = {}
        """The teachers' mean logits for the predictions that come next, by objective."""

    @torch.no_grad()
    def observe(self, learner: Callable[[Any], Any], batch: object) -> None:
        every = [find_classes(teacher(batch), "distillation") for teacher in self.teachers]
        for name in every[0] if every else ():
            self.taught[name] = torch.stack([it[name].logits.float() for it in every]).mean(0)

    def forward(self, predictions: Mapping[str, Any]) -> dict[str, Float[Tensor, ""]]:
        totals, taught = super().forward(predictions), self.taught
        self.taught = {}
        if not torch.is_grad_enabled():
            return totals
        for name, logits in taught.items():
            compared = self.compare(logits, predictions[name])
            totals[name] = (1 - self.weight) * totals[name] + self.weight * compared
        return totals

    def compare(self, teacher: Float[Tensor, "N C"], prediction: Classes) -> Float[Tensor, ""]:
        """t^2 times the sum of the divergences of the rows with a target."""
        teacher, own = teacher / self.temperature, prediction.logits / self.temperature
        return self.temperature**2 * sum_divergences(teacher, own, prediction.targets)


def find_classes(predictions: Mapping[str, LazyPrediction], criterion: str) -> dict[str, Classes]:
    """The predictions with their logits; raises a ToolkitError unless all are of classes."""
    found: dict[str, Classes] = {}
    for name, prediction in compute_logits(predictions).items():
        if not isinstance(prediction, Classes):
            raise ToolkitError(
                f"criterion {criterion} requires objectives that predict classes, but {name} "
                f"predicts {type(prediction).__name__.lower()}. Choose --criterion cross_entropy."
            )
        found[name] = prediction
    return found


def sum_divergences(
    a: Float[Tensor, "N C"], b: Float[Tensor, "N C"], targets: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """sum_n KL(softmax(a_n) || softmax(b_n)) over the rows with a target."""
    precise = torch.promote_types(b.dtype, torch.float32)
    p, q = a.to(precise).log_softmax(-1), b.to(precise).log_softmax(-1)
    return ((p.exp() * (p - q)).sum(-1) * (targets != IGNORED)).sum()


@dataclass(frozen=True, kw_only=True)
class RDropConfig(CrossEntropyConfig):
    """Options of the criterion r_drop."""

    divergence_weight: PositiveFloat = 1.0
    """Weight a of the divergence between the two passes: 1 to 5 in the paper."""


@register_criterion("r_drop", RDropConfig())
class RDrop(CrossEntropy):
    """1/2 (CE_1 + CE_2 + a/2 sum_n (KL(p_1n || p_2n) + KL(p_2n || p_1n))) of two passes with other
    dropout (R-Drop, Liang et al. 2021, eq. 4, halved); `CrossEntropy` of one without gradients.
    """

    takes_projections, allows_cuda_graphs = False, False

    def __init__(self, c: RDropConfig) -> None:
        super().__init__(c)
        self.weight = c.divergence_weight
        self.first: dict[str, Classes] = {}
        """The predictions of the first pass, by objective."""

    def observe(self, learner: Callable[[Any], Any], batch: object) -> None:
        self.first = find_classes(learner(batch), "r_drop")

    def forward(self, predictions: Mapping[str, Any]) -> dict[str, Float[Tensor, ""]]:
        totals, first = super().forward(predictions), self.first
        self.first = {}
        for name, one in first.items() if torch.is_grad_enabled() else ():
            other, targets = predictions[name].logits, one.targets
            both = sum_divergences(one.logits, other, targets)
            both = both + sum_divergences(other, one.logits, targets)
            totals[name] = (totals[name] + self.total(one) + self.weight / 2 * both) / 2
        return totals
