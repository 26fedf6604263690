"""Score terms: the summands of the attention scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.offsets import scatter_to_diagonals


class ScoreTerm(nn.Module, ABC):
    """One summand of the attention scores; may broadcast over the batch."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]: ...


class Content(ScoreTerm):
    """q_i . k_j / sqrt(K) (Vaswani et al. 2017, eq. 1)."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(head_width)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        return self.scale * (p.q @ p.k.mT)  # (B, H, S, K) @ (B, H, K, T)


class Relative(ScoreTerm):
    """Sum of kernels at j - i, offsets clipped to the radius (Chang et al. 2021, eq. 4 to 6).

    The taps of all kernels are summed first, so that they are scattered to diagonals only once.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(kernels)

    def taps(self, p: AttentionInputs) -> Float[Tensor, "#B H S R"]:
        total = self.kernels[0](p)
        for kernel in self.kernels[1:]:
            total = total + kernel(p)
        return total.to(p.q.dtype).expand(-1, -1, p.q.shape[2], -1)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        return scatter_to_diagonals(self.taps(p), p.sequence.offsets)


class RelativeToKey(Relative):
    """Sum of kernels of the key at i - j: the taps of position j are read for each query i."""

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        return scatter_to_diagonals(self.taps(p), p.sequence.offsets).mT
