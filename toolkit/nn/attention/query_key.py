"""Changes of queries and keys before their product: a norm, and a look at the previous key."""

from __future__ import annotations

import torch
from torch import nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.terms import ContentChange
from toolkit.nn.ops.layer_norm import RMSNorm

EPS = 1e-6
START = 4.0
"""Initial s of `SmearedKeys`: the key itself has the weight 0.98."""


class QueryKeyNorm(ContentChange):
    """g_q * q / RMS(q) and g_k * k / RMS(k) of each query and key (Henry et al. 2020, eq. 1, with
    the root mean square for the norm and a gain by column).

    Scores of contents are then at most sqrt(K) times the largest |g_q g_k|.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.query_norm, self.key_norm = RMSNorm(head_width, EPS), RMSNorm(head_width, EPS)

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        return p.with_content(self.query_norm(p.q), self.key_norm(p.k))


class SmearedKeys(ContentChange):
    """k_i <- w k_i + (1 - w) k_{i-1}, w = sigmoid(s) of each head; the first key stays (Olsson et
    al. 2022, "smeared keys").

    Neighbors are those in the tensor, so that sentences must not be packed.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.smear_bias = nn.Parameter(torch.full((heads, 1, 1), START))

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        before = torch.cat([p.k[:, :, :1], p.k[:, :, :-1]], dim=2)
        weight = self.smear_bias.to(p.k.dtype).sigmoid()
        return p.with_content(p.q, torch.lerp(before, p.k, weight))
