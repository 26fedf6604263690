"""Values that depend on the offset (Shaw et al. 2018, eq. 3)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.kernels import init_directions
from toolkit.nn.attention.offsets import Offsets, sum_by_offset
from toolkit.nn.ops.offsets.attention import ValueTable


class OffsetValues(nn.Module):
    """sum_j w_ij a_{clip(j - i)}, one vector a for each offset within the radius, of all heads."""

    def __init__(self, head_width: int, radius: int) -> None:
        super().__init__()
        self.radius = radius
        self.vectors = init_directions(head_width, radius)  # (K, R)

    def forward(
        self, weights: Float[Tensor, "B H S T"], offsets: Offsets
    ) -> Float[Tensor, "B H S K"]:
        """sum_j w_ij a_{clip(j - i)} for the attention weights w."""
        by_offset = sum_by_offset(weights, offsets, self.radius)
        return by_offset @ self.vectors.to(weights.dtype).mT  # (B, H, S, R) @ (R, K)

    def table(self, offsets: Offsets) -> ValueTable:
        """The vectors and the tap of each pair."""
        return ValueTable(self.vectors, offsets.tap_table(self.radius))
