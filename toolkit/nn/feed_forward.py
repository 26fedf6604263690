"""Position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.init import INIT_STD

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2, gelu in its exact form (Devlin et al. 2019), or with ReLU
    (Vaswani et al. 2017, eq. 2).

    With groups, both matrices are block diagonal (Jiang et al. 2020, eq. 7, where group i takes
    columns (i-1) d/g to i d/g).
    """

    def __init__(self, width: int, inner: int, groups: int = 1, activation: str = "gelu") -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.wide = build_linear(width, inner, groups)
        self.back = build_linear(inner, width, groups)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.back(self.activation(self.wide(x)))


def build_linear(width: int, out: int, groups: int) -> nn.Module:
    """A linear map, or one of several groups of channels."""
    return nn.Linear(width, out) if groups == 1 else GroupedLinear(width, out, groups)


class GroupedLinear(nn.Module):
    """concat_g(x_g W_g) + b: contiguous groups of channels, each with a separate matrix."""

    def __init__(self, width: int, out: int, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, width // groups, out // groups))
        self.bias = nn.Parameter(torch.zeros(out))
        nn.init.normal_(self.weight, std=INIT_STD)

    def extra_repr(self) -> str:
        return "groups={}, in={}, out={} each".format(*self.weight.shape)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S O"]:
        groups = len(self.weight)
        rows = x.flatten(0, 1).unflatten(-1, (groups, -1)).transpose(0, 1)  # (B, S, D) -> (G, N, I)
        out = torch.baddbmm(self.bias.view(groups, 1, -1), rows, self.weight)
        return out.transpose(0, 1).flatten(1).unflatten(0, x.shape[:2])  # (G, N, J) -> (B, S, O)
