"""Dropout from cheap random bits (Srivastava et al. 2014)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """y = x * keep / (1 - rate), keep ~ Bernoulli(1 - rate) for every number of its own."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def active(self) -> float:
        """The rate in force: 0 in evaluation."""
        return self.rate if self.training else 0.0

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return F.dropout(x, self.active, self.training)
