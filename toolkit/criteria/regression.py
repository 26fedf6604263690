"""Squared error: what a number that is predicted costs (Devlin et al. 2019, code, for STS-B)."""

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
    """sum_n (value_n - target_n)^2 over the places whose target is a number."""
    values, targets = prediction
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    asked = ~targets.isnan()
    difference = values - torch.where(asked, targets.to(values), values.detach())
    return (difference * asked).square().sum()


@dataclass(frozen=True, kw_only=True)
class MeanSquaredErrorConfig:
    """Nothing to choose."""


@register_criterion("mean_squared_error", MeanSquaredErrorConfig())
class MeanSquaredError(Criterion):
    """(value - target)^2, summed over the places; the trainer makes the mean of it."""

    def __init__(self, c: MeanSquaredErrorConfig) -> None:
        super().__init__()

    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]:
        found = {}
        for name, prediction in predictions.items():
            if not isinstance(prediction, Values):
                raise ToolkitError(
                    f"criterion mean_squared_error must be given numbers, but objective {name} is "
                    f"{type(prediction).__name__.lower()}. Choose --criterion cross_entropy."
                )
            found[name] = squared_error(prediction)
        return found
