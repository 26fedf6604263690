"""Changes of queries and keys for the product q . k only, such as rotary position embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.ops.offsets.biases import add_by_head
from toolkit.nn.ops.rotation import rotate


class ContentChange(nn.Module, ABC):
    """Changes the queries and keys of the product q . k; terms and kernels read those before."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> AttentionInputs:
        """The inputs with other q and k."""


class Rotary(ContentChange):
    """R_p q and R_p k: columns c and c + K / 2 rotated by p base^(-2c / K) (Su et al. 2021, 3.4.2).

    So (R_i q) . (R_j k) depends on positions through j - i only. As in GPT-NeoX and ModernBERT the
    halves of a head are paired; the paper pairs neighboring columns, which differs by a permutation
    of the columns.
    """

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base

    def extra_repr(self) -> str:
        """The base of the frequencies, shown when the module is printed."""
        return f"base={self.base:g}"

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        rotations = p.sequence.offsets.rotations(p.q.shape[-1], self.base, p.q.dtype)
        return p.with_content(rotate(p.q, rotations), rotate(p.k, rotations))


class ContentBias(ContentChange):
    """q + u with a vector u per head: the products q . k and u . k (Dai et al. 2019, 3.3, c)."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads, 1, head_width))

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        return p.with_content(add_by_head(p.q, self.bias), p.k)
