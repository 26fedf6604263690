"""xl: relative positions of Transformer-XL (Dai et al. 2019, section 3.3)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.registry import register_position
from toolkit.nn.attention.absolute import sinusoidal_encodings
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import SharedKernel
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import ContentChange, Relative, ScoreTerm


@register_position("xl", PositionOptions())
class TransformerXL(Position[PositionOptions]):
    """Products of the queries with projected sinusoids of the offset, and two biases."""

    excludes = ("rope",)
    reason = "xl adds a vector to the queries that rope rotates: no paper says which comes first"
    reads_right = True

    def changes(self, shape: Shape) -> list[ContentChange]:
        return [ContentBias(shape.heads, shape.head_width)]

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        return [Relative([SinusoidalKernel(shape.width, shape.heads, shape.head_width)])]


class ContentBias(ContentChange):
    """q + u with a vector u per head: the products q . k and u . k (Dai et al. 2019, 3.3, c)."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads, 1, head_width))

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        return p.with_content(p.q + self.bias.to(p.q.dtype), p.k)


class SinusoidalKernel(SharedKernel):
    """(q_i + v) . (W s_{i-j}) / sqrt(K), s sinusoidal encodings of all offsets in use.

    Terms (b) and (d) of the paper; (a) and (c) are the product of queries with `ContentBias`. For
    encoders there are offsets of both signs, as in XLNet.
    """

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__(heads, head_width, width)
        self.width = width
        self.bias = nn.Parameter(torch.zeros(heads, 1, head_width))

    def content_vectors(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return p.term_queries + self.bias.to(p.term_queries.dtype)

    def offset_vectors(self, p: AttentionInputs) -> Float[Tensor, "O D"]:
        """s_{i-j} for j - i = -m .. m: i - j descends."""
        limit = p.sequence.offsets.max_offset
        dtype = self.project.weight.dtype
        encodings = sinusoidal_encodings(-limit, limit + 1, self.width, p.x.device, dtype)
        return encodings.flip(0)
