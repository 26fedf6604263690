"""deberta: disentangled attention with the projections of the content (He et al. 2021, 3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_position
from toolkit.config.declared import ADVANCED, AtLeast, Size
from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.attention.kernels import OffsetKernel
from toolkit.nn.attention.position import OffsetVectors, Position, PositionOptions, Shape
from toolkit.nn.attention.projections import LinearProjections
from toolkit.nn.attention.terms import ContentChange, Relative, RelativeToKey, ScoreTerm
from toolkit.nn.init import copy_to_device
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class DisentangledConfig(PositionOptions):
    """Options of deberta."""

    position_buckets: Annotated[int, AtLeast(2)] = field(default=256, metadata=ADVANCED)
    """Rows of the table of offsets on each side; the nearer half of them for one offset each
    (deberta)."""
    max_distance: Size = field(default=512, metadata=ADVANCED)
    """Distance at which the logarithmic buckets end, in tokens (deberta)."""


@register_position("deberta", DisentangledConfig())
class Disentangled(Position[DisentangledConfig]):
    """Content-to-position and position-to-content products, and a table of offsets for all layers.

    (q_i . k_j + q_i . k^r_{i-j} + k_j . q^r_{i-j}) / sqrt(3 K) (eq. 4).
    """

    excludes = ("shaw", "xl", "composite")
    reason = (
        "deberta divides the scores by sqrt(3 K) for three products, and this would be a fourth"
    )
    reads_right = True
    products = 3

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        scale = 1 / math.sqrt(self.products * shape.head_width)
        return [Relative([ContentToPosition(scale)]), RelativeToKey([PositionToContent(scale)])]

    def shared(self, shape: Shape) -> OffsetEmbedding:
        c = self.options
        return OffsetEmbedding(c.position_buckets, c.max_distance, shape.width)

    def project(self, shape: Shape, **options: Any) -> LinearProjections:
        width, heads, head_width = shape.width, shape.heads, shape.head_width
        return DisentangledProjections(width, heads, head_width, dropout=shape.dropout, **options)


class DisentangledProjections(LinearProjections):
    """q, k, v of the tokens, and q and k of the offset vectors by the same matrices and biases.

    As in DeBERTa's second version; the paper has separate matrices for offsets.
    """

    keeps_rows = False

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        *,
        convolution_values: bool = False,
        changes: Sequence[ContentChange] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            width, heads, head_width, convolution_values=convolution_values, changes=changes
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        vectors, rows = sequence.offset_vectors, sequence.offset_rows
        assert vectors is not None, "the encoder passes its offset vectors to the layers"
        inner = self.qkv.out_features // self.parts
        weight, bias = self.qkv.weight[: 2 * inner], self.qkv.bias
        bias_qk = None if bias is None else bias[: 2 * inner]  # with arch.biases false
        qk = F.linear(self.dropout(vectors), weight, bias_qk).unflatten(-1, (2, self.heads, -1))
        q, k = qk.permute(1, 2, 0, 3)  # (R, 2, H, K) -> (2, H, R, K)
        if rows is not None:
            q, k = q.index_select(1, rows), k.index_select(1, rows)
        return super().forward(x, sequence).replace(offset_qk=(q, k))


class ContentToPosition(OffsetKernel):
    """scale q_i . k^r_{i-j}, added at j - i (He et al. 2021, eq. 4, second term).

    The vectors are those of i - j, so that of j - i = m is row -m.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def operands(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None, "from DisentangledProjections"
        return p.term_queries, (self.scale * p.offset_qk[1].flip(1)).to(p.q.dtype)


class PositionToContent(ContentToPosition):
    """scale k_j . q^r_{i-j}, taps of the key at i - j (He et al. 2021, eq. 4, third term).

    i - j as in the authors' code; the equation has j - i.
    """

    def operands(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None, "from DisentangledProjections"
        return p.term_keys, (self.scale * p.offset_qk[0]).to(p.k.dtype)


class OffsetEmbedding(nn.Module):
    """LN(table)[bucket(i - j)], with one row for each bucket from -buckets to buckets - 1.

    Offsets up to half of the buckets have one each; the others grow logarithmically up to
    `max_distance` (DeBERTa's second version, code).
    """

    def __init__(self, buckets: int, max_distance: int, width: int) -> None:
        super().__init__()
        self.buckets, self.max_distance = buckets, max_distance
        self.table = nn.Embedding(2 * buckets, width)
        self.norm = LayerNorm(width)

    def forward(self, max_offset: int) -> OffsetVectors:
        """Vectors of the offsets -max_offset .. max_offset."""
        if torch.compiler.is_exporting():  # lengths are symbols
            offsets = torch.arange(-max_offset, max_offset + 1, device=self.table.weight.device)
            buckets = clipped_buckets(offsets, self.buckets, self.max_distance)
            return OffsetVectors(self.norm(self.table.weight), self.buckets + buckets)
        first, end, rows = bucket_rows(max_offset, self.buckets, self.max_distance)
        vectors = self.norm(self.table.weight[first:end])
        if rows is not None:
            rows = copy_to_device(rows, vectors.device)
        return OffsetVectors(vectors, rows)


@lru_cache(maxsize=8)
def bucket_rows(
    max_offset: int, buckets: int, max_distance: int
) -> tuple[int, int, Int[Tensor, " O"] | None]:
    """First and last row in use, and the rows from there; None if they are 0, 1, 2, ..."""
    with torch.inference_mode(False):
        offsets = torch.arange(-max_offset, max_offset + 1)
        rows = clipped_buckets(offsets, buckets, max_distance)
        first, end = buckets + int(rows.min()), buckets + int(rows.max()) + 1
        in_order = end - first == len(offsets)
        return first, end, None if in_order else rows - rows.min()


def clipped_buckets(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int
) -> Int[Tensor, " O"]:
    """sign(o) ceil(log(|o| / n) / log((max_distance - 1) / n) (n - 1)) + n, n = buckets / 2, for
    |o| > n; smaller offsets are their own buckets, and larger ones share the outermost.

    If `max_distance` is not above n + 1, no sentence of that length has other offsets, and those of
    longer ones have fewer buckets or the outermost (Transformers computes the same).
    """
    near = buckets // 2
    scale = math.log((max_distance - 1) / near) if max_distance > 1 else -math.inf
    ratio = (offsets.abs().clamp(min=1).double() / near).log() / scale
    far = (ratio * (near - 1)).ceil().nan_to_num(0.0).clamp(-buckets - near, buckets).long() + near
    rows = torch.where(offsets.abs() <= near, offsets, far * offsets.sign())
    return rows.clamp(-buckets, buckets - 1)
