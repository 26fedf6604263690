"""Position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.init import INIT_STD

Activation = Literal["gelu", "relu", "geglu", "swiglu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "geglu": F.gelu,
    "swiglu": F.silu,
}
GATED = ("geglu", "swiglu")
"""Activations that are multiplied by a second linear map."""


class FeedForward(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2, gelu in its exact form (Devlin et al. 2019), or with ReLU
    (Vaswani et al. 2017, eq. 2).

    Gated: W_2 (gelu(W_1 x + b_1) * (V x + c)) + b_2 for geglu, with silu for swiglu (Shazeer 2020,
    eq. 6). W_1 and V, of `inner` rows each, are one product.

    With groups, both matrices are block diagonal (Jiang et al. 2020, eq. 7, where group i takes
    columns (i-1) d/g to i d/g).
    """

    def __init__(
        self, width: int, inner: int, groups: int = 1, activation: Activation = "gelu"
    ) -> None:
        super().__init__()
        self.activation, self.gated = ACTIVATIONS[activation], activation in GATED
        assert groups == 1 or not self.gated, "the halves of the product are no groups"
        self.wide = build_linear(width, 2 * inner if self.gated else inner, groups)
        self.back = build_linear(inner, width, groups)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        y = self.wide(x)
        if not self.gated:
            return self.back(self.activation(y))
        y, gate = y.chunk(2, -1)
        return self.back(self.activation(y) * gate)


def default_inner_width(width: int, activation: Activation) -> int:
    """4 x width; for a gated activation 2/3 of it in multiples of 8, for as many parameters."""
    return 8 * round(width / 3) if activation in GATED else 4 * width


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
