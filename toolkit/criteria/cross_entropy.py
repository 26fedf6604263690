"""Cross-entropy, with optional label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_criterion
from toolkit.criteria.criterion import IGNORED, Classes, Criterion, Prediction


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig:
    label_smoothing: float = 0.0
    """Share of the probability that is spread evenly over all classes, 0 to 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ToolkitError(
                "criterion.label_smoothing must lie between 0 and 1, 1 excluded, "
                f"but is {self.label_smoothing}."
            )


@register_criterion("cross_entropy", CrossEntropyConfig())
class CrossEntropy(Criterion):
    """-sum_n ((1 - s) log p_n(target_n) + s mean_c log p_n(c)), summed over the places."""

    def __init__(self, c: CrossEntropyConfig) -> None:
        super().__init__()
        self.label_smoothing = c.label_smoothing

    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]:
        return {name: self.total(prediction) for name, prediction in predictions.items()}

    def total(self, prediction: Classes) -> Float[Tensor, ""]:
        return F.cross_entropy(
            prediction.logits.float(),
            prediction.targets,
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
