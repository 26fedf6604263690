"""Squared error of predicted numbers (Devlin et al. 2019, code, for STS-B)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.criteria.criterion import Criterion, Prediction, Values


def squared_error(prediction: Values) -> Float[Tensor, ""]:
    """sum_n (value_n - target_n)^2 over the targets that are not NaN."""
    values, targets = prediction
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    valid = ~targets.isnan()
    difference = values - torch.where(valid, targets.to(values), values.detach())
    return (difference * valid).square().sum()


@dataclass(frozen=True, kw_only=True)
class MeanSquaredErrorConfig:
    """No options."""


@register_criterion("mean_squared_error", MeanSquaredErrorConfig())
class MeanSquaredError(Criterion):
    """sum_n (value_n - target_n)^2; the trainer divides it by N."""

    def __init__(self, c: MeanSquaredErrorConfig) -> None:
        super().__init__()

    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]:
        losses = {}
        for name, prediction in predictions.items():
            if not isinstance(prediction, Values):
                raise ToolkitError(
                    f"criterion mean_squared_error requires objectives that predict numbers, but "
                    f"{name} predicts {type(prediction).__name__.lower()}. Choose --criterion "
                    f"cross_entropy."
                )
            losses[name] = squared_error(prediction)
        return losses
