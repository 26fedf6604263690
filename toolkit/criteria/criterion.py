"""Base class of criteria, and the predictions that they score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn


class Classes(NamedTuple):
    """N predictions over C classes."""

    logits: Float[Tensor, "N C"]
    targets: Int[Tensor, " N"]
    """The correct classes; IGNORED for padding that keeps shapes stable."""


class MaskedClasses(Classes):
    """Predictions with some classes masked: their scores are so low that softmax gives 0."""


class Binary(NamedTuple):
    """N predictions of yes or no."""

    logits: Float[Tensor, " N"]
    """log p / (1 - p), p the probability of yes."""
    targets: Int[Tensor, " N"]
    """1 for yes, 0 for no; IGNORED for padding."""


class Values(NamedTuple):
    """N predicted numbers."""

    values: Float[Tensor, " N"]
    targets: Float[Tensor, " N"]
    """The correct numbers; NaN for padding."""


IGNORED = -100

Prediction = Classes | Binary | Values


class Criterion(nn.Module, ABC):
    """One summed loss per objective: the trainer divides each by its weight over all ranks."""

    @abstractmethod
    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]: ...
