"""Distillation: learn from the scores of teachers (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.config.declared import Fraction, PositiveFloat
from toolkit.criteria import IGNORED, Classes, Prediction, compute_logits
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
    Tastet 2023).

    CE is `CrossEntropy`, alone without gradients: losses of validation are comparable. Teachers
    have no dropout.
    """

    takes_projections, allows_cuda_graphs = False, False

    def __init__(self, c: DistillationConfig) -> None:
        super().__init__(c)
        self.weight, self.temperature = c.teacher_weight, c.temperature
        self.teachers: Sequence[Callable[[Any], Mapping[str, Any]]] = ()
        """Learners in evaluation mode; training loads them."""
        self.taught: dict[str, Tensor] = {}
        """The teachers' mean logits for the predictions that come next, by objective."""

    @torch.no_grad()
    def observe(self, batch: object) -> None:
        every = [compute_logits(teacher(batch)) for teacher in self.teachers]
        for name in every[0] if every else ():
            predictions = [each[name] for each in every]
            if not all(isinstance(it, Classes) for it in predictions):
                raise ToolkitError(
                    f"criterion distillation requires objectives that predict classes, but {name} "
                    f"predicts {type(predictions[0]).__name__.lower()}. Choose --criterion "
                    f"cross_entropy."
                )
            self.taught[name] = torch.stack([it[0].float() for it in predictions]).mean(0)

    def forward(self, predictions: Mapping[str, Any]) -> dict[str, Float[Tensor, ""]]:
        totals, taught = super().forward(predictions), self.taught
        self.taught = {}
        if not torch.is_grad_enabled():
            return totals
        for name, logits in taught.items():
            compared = self.compare(logits, predictions[name])
            totals[name] = (1 - self.weight) * totals[name] + self.weight * compared
        return totals

    def compare(self, teacher: Float[Tensor, "N C"], prediction: Prediction) -> Float[Tensor, ""]:
        """t^2 times the sum of the divergences of the rows with a target."""
        logits, targets = prediction
        precise = torch.promote_types(logits.dtype, torch.float32)
        p = (teacher.to(precise) / self.temperature).log_softmax(-1)
        q = (logits.to(precise) / self.temperature).log_softmax(-1)
        divergence = (p.exp() * (p - q)).sum(-1)
        return self.temperature**2 * (divergence * (targets != IGNORED)).sum()
