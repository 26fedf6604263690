"""What a criterion is: predictions in, one summed loss per objective out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn


class Classes(NamedTuple):
    """Scores of N places over C classes, and what they should have been."""

    logits: Float[Tensor, "N C"]
    targets: Int[Tensor, " N"]
    """Class of each place; IGNORED where the place only fills the batch to a stable shape."""


IGNORED = -100

Prediction = Classes


class Criterion(nn.Module, ABC):
    """Sums, never means: the trainer divides each objective by its weight over all ranks."""

    @abstractmethod
    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]: ...
