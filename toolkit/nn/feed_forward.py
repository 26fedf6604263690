"""The position-wise network."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2, gelu in its exact form (Devlin et al. 2019)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.back(F.gelu(self.wide(x)))
