"""Projections whose lengths are learnt apart from their directions."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.projected import Places, Projected
from toolkit.nn.initial import glorot_normal_

PARTS = 3


class TemperedProjections(nn.Module):
    """q, k, v = g_q W_q x, g_k W_k x, g_v W_v x, without biases (Dufter et al. 2020, section 2.4).

    Each head has three numbers g, of which g_q g_k is the temperature of its softmax. They scale
    the matrices, which have fewer numbers than what comes out. Without `temperature` they are 1.
    """

    def __init__(self, width: int, heads: int, *, temperature: bool) -> None:
        super().__init__()
        self.heads = heads
        self.together = nn.Linear(width, PARTS * width, bias=False)
        self.temperature = nn.Parameter(torch.ones(PARTS, heads)) if temperature else None
        for head in self.together.weight.detach().split(width // heads):
            glorot_normal_(head, width, width // heads)

    def weight(self) -> Float[Tensor, "D3 D"]:
        weight = self.together.weight
        if self.temperature is None:
            return weight
        by_head = weight.unflatten(0, (PARTS * self.heads, -1))
        return (self.temperature.flatten()[:, None, None] * by_head).flatten(0, 1)

    def forward(self, x: Float[Tensor, "B S D"], places: Places) -> Projected:
        together = nn.functional.linear(x, self.weight())
        parts = together.unflatten(-1, (PARTS, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4).contiguous()  # (B, S, 3, H, K) -> (3, B, H, S, K)
        return Projected(q, k, v, x, places)
