"""Focal loss: cross-entropy that weights hard examples more (Lin et al. 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from toolkit import ToolkitError, register_criterion
from toolkit.criteria import IGNORED, Classes, Criterion


@dataclass(frozen=True, kw_only=True)
class FocalConfig:
    gamma: float = 2.0
    """Exponent of (1 - p): larger values weight easy examples less; 0 is cross-entropy."""

    def __post_init__(self) -> None:
        if self.gamma < 0:
            raise ToolkitError(f"criterion.gamma must not be negative, but is {self.gamma}.")


@register_criterion("focal", FocalConfig())
class Focal(Criterion):
    """-sum_n (1 - p_n)^gamma log p_n, p_n the probability of the true class (eq. 4)."""

    def __init__(self, c: FocalConfig) -> None:
        super().__init__()
        self.gamma = c.gamma

    def forward(self, predictions: Mapping[str, Classes]) -> dict[str, Tensor]:
        return {name: self.total(*prediction) for name, prediction in predictions.items()}

    def total(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
        return ((1 - (-loss).exp()) ** self.gamma * loss).sum()
