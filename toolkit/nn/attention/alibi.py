"""alibi: attention with linear biases (Press et al. 2022)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.registry import register_position
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import ScoreTerm


@register_position("alibi", PositionOptions())
class Alibi(Position[PositionOptions]):
    """A constant slope per head."""

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        return [LinearBias(shape.heads)]


class LinearBias(ScoreTerm):
    """-m_h |j - i|: attention falls with the distance on both sides (Press et al. 2022, section 3).

    The slopes m_h are constants: 2^(-8 h / H) for h = 1 .. H if H is a power of two. Otherwise they
    are those of the largest smaller power of two, then every other one of twice as many, as in the
    authors' code.
    """

    slopes: Float[Tensor, "H 1 1"]

    def __init__(self, heads: int) -> None:
        super().__init__()
        power = 1 << (heads.bit_length() - 1)
        own = [2 ** (-8 * h / power) for h in range(1, power + 1)]
        between = [2 ** (-4 * h / power) for h in range(1, 2 * power + 1, 2)]
        slopes = torch.tensor(own + between[: heads - power], dtype=torch.float64)
        self.register_buffer("slopes", slopes.float()[:, None, None], persistent=False)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        distances = p.sequence.offsets.differences.abs()[:, None]  # (#B, 1, S, T)
        return (-self.slopes * distances).to(p.q.dtype)
