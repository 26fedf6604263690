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


class MaskedClasses(Classes):
    """Classes of which some places lack some, whose scores are so low that softmax gives them 0."""


class Binary(NamedTuple):
    """Scores of N places for yes against no, and the answers."""

    logits: Float[Tensor, " N"]
    """log p / (1 - p), p the probability of yes."""
    targets: Int[Tensor, " N"]
    """1 for yes, 0 for no; IGNORED where nothing is asked."""


class Values(NamedTuple):
    """N numbers, and what they should have been."""

    values: Float[Tensor, " N"]
    targets: Float[Tensor, " N"]
    """NaN where nothing is asked."""


IGNORED = -100

Prediction = Classes | Binary | Values


class Criterion(nn.Module, ABC):
    """Sums, never means: the trainer divides each objective by its weight over all ranks."""

    @abstractmethod
    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]: ...
