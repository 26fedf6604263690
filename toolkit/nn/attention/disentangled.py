"""deberta: disentangled attention with the projections of the content (He et al. 2021, 3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_position
from toolkit.config.declared import ADVANCED, AtLeast, Size
from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.attention.kernels import OffsetKernel
from toolkit.nn.attention.position import OffsetVectors, Position, PositionOptions, Shape
from toolkit.nn.attention.projections import LinearProjections, split_heads
from toolkit.nn.attention.terms import ContentChange, Relative, RelativeToKey, ScoreTerm
from toolkit.nn.init import copy_to_device
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class DisentangledConfig(PositionOptions):
    """Options of deberta."""

    position_buckets: Annotated[int, AtLeast(2)] | None = field(default=256, metadata=ADVANCED)
    """Rows of the table of offsets on each side; the nearer half of them for one offset each. null:
    a row for each offset up to arch.max_distance (deberta)."""
    max_distance: Size = field(default=512, metadata=ADVANCED)
    """Distance at which the logarithmic buckets end, in tokens (deberta)."""
    position_products: Literal["both", "c2p", "p2c"] = field(default="both", metadata=ADVANCED)
    """Products of contents and offsets: content-to-position (c2p), position-to-content (p2c), or
    both (deberta)."""
    separate_position_projections: bool = field(default=False, metadata=ADVANCED)
    """Separate matrices for the queries and keys of offsets, as in the paper, in place of those of
    the tokens (deberta)."""
    position_norm: bool = field(default=True, metadata=ADVANCED)
    """Normalize the table of offsets (deberta)."""


@register_position("deberta", DisentangledConfig())
class Disentangled(Position[DisentangledConfig]):
    """(q_i . k_j + q_i . k^r_{i-j} + k_j . q^r_{i-j}) / sqrt(3 K) (eq. 4), with a table of offsets
    for all layers; with one product of offsets only, the sum is divided by sqrt(2 K).
    """

    excludes = ("shaw", "xl", "composite")
    reason = (
        "deberta divides the scores by sqrt(3 K) for three products, and this would be a fourth"
    )
    reads_right = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The products of contents and offsets."""
        chosen = self.options.position_products
        return ("c2p", "p2c") if chosen == "both" else (chosen,)

    @property
    def products(self) -> int:
        return 1 + len(self.kinds)

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        scale = 1 / math.sqrt(self.products * shape.head_width)
        terms = {
            "c2p": Relative([ContentToPosition(scale)]),
            "p2c": RelativeToKey([PositionToContent(scale)]),
        }
        return [terms[kind] for kind in self.kinds]

    def shared(self, shape: Shape) -> OffsetEmbedding:
        c = self.options
        return OffsetEmbedding(
            c.position_buckets, c.max_distance, shape.width, norm=c.position_norm
        )

    def project(self, shape: Shape, **options: Any) -> LinearProjections:
        separate = self.kinds if self.options.separate_position_projections else ()
        width, heads, head_width = shape.width, shape.heads, shape.head_width
        return DisentangledProjections(
            width, heads, head_width, dropout=shape.dropout, separate=separate, **options
        )


class DisentangledProjections(LinearProjections):
    """q, k, v of the tokens, and q and k of the offset vectors by the same matrices and biases, as
    in DeBERTa's second version; or by those, as in the paper, that the products in `separate` read.
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
        separate: Sequence[str] = (),
    ) -> None:
        super().__init__(
            width, heads, head_width, convolution_values=convolution_values, changes=changes
        )
        self.dropout, self.separate = Dropout(dropout), bool(separate)
        inner = self.qkv.out_features // self.parts
        self.offset_query = nn.Linear(width, inner) if "p2c" in separate else None
        self.offset_key = nn.Linear(width, inner) if "c2p" in separate else None

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        vectors, rows = sequence.offset_vectors, sequence.offset_rows
        assert vectors is not None, "the encoder passes its offset vectors to the layers"
        qk: list[Tensor | None] = []
        for y in self.project_offsets(self.dropout(vectors)):
            if y is not None:
                y = split_heads(y[None], self.heads).squeeze(0)  # (R, D) -> (H, R, K)
                y = y if rows is None else y.index_select(1, rows)
            qk.append(y)
        return super().forward(x, sequence).replace(offset_qk=tuple(qk))

    def project_offsets(self, vectors: Float[Tensor, "R D"]) -> Sequence[Tensor | None]:
        """Queries and keys of the offset vectors; None for those that no product reads."""
        if self.separate:
            maps = self.offset_query, self.offset_key
            return [None if it is None else it(vectors) for it in maps]
        inner = self.qkv.out_features // self.parts
        weight, bias = self.qkv.weight[: 2 * inner], self.qkv.bias
        bias_qk = None if bias is None else bias[: 2 * inner]  # with arch.biases false
        return F.linear(vectors, weight, bias_qk).chunk(2, -1)


class ContentToPosition(OffsetKernel):
    """scale q_i . k^r_{i-j}, added at j - i (He et al. 2021, eq. 4, second term).

    The vectors are those of i - j, so that of j - i = m is row -m.
    """

    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None and p.offset_qk[1] is not None, "of these projections"
        return p.term_queries, p.offset_qk[1].flip(1)


class PositionToContent(ContentToPosition):
    """scale k_j . q^r_{i-j}, taps of the key at i - j (He et al. 2021, eq. 4, third term).

    i - j as in the authors' code; the equation has j - i.
    """

    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None and p.offset_qk[0] is not None, "of these projections"
        return p.term_keys, p.offset_qk[0]


class OffsetEmbedding(nn.Module):
    """LN(table)[bucket(i - j)], with one row for each bucket from -buckets to buckets - 1.

    Without buckets, all offsets from -max_distance to max_distance - 1 have one, and without `norm`
    LN is left out.
    """

    def __init__(
        self, buckets: int | None, max_distance: int, width: int, *, norm: bool = True
    ) -> None:
        super().__init__()
        self.buckets, self.max_distance = buckets, max_distance
        self.rows = buckets or max_distance
        """Rows of the table on each side."""
        self.table = nn.Embedding(2 * self.rows, width)
        self.norm: nn.Module = LayerNorm(width) if norm else nn.Identity()

    def forward(self, max_offset: int) -> OffsetVectors:
        """Vectors of the offsets -max_offset .. max_offset."""
        if torch.compiler.is_exporting():  # lengths are symbols
            offsets = torch.arange(-max_offset, max_offset + 1, device=self.table.weight.device)
            buckets = clipped_buckets(offsets, self.buckets, self.max_distance)
            return self.norm(self.table.weight), self.rows + buckets
        first, end, rows = bucket_rows(max_offset, self.buckets, self.max_distance)
        vectors = self.norm(self.table.weight[first:end])
        if rows is not None:
            rows = copy_to_device(rows, vectors.device)
        return vectors, rows


@lru_cache(maxsize=8)
def bucket_rows(
    max_offset: int, buckets: int | None, max_distance: int
) -> tuple[int, int, Int[Tensor, " O"] | None]:
    """First and last row in use, and the rows from there; None if they are 0, 1, 2, ..."""
    with torch.inference_mode(False):
        offsets = torch.arange(-max_offset, max_offset + 1)
        rows = clipped_buckets(offsets, buckets, max_distance)
        zero = buckets or max_distance  # the row of offset 0
        first, end = zero + int(rows.min()), zero + int(rows.max()) + 1
        return first, end, None if end - first == len(offsets) else rows - rows.min()


def clipped_buckets(
    offsets: Int[Tensor, " O"], buckets: int | None, max_distance: int
) -> Int[Tensor, " O"]:
    """sign(o) ceil(log(|o| / n) / log((max_distance - 1) / n) (n - 1)) + n, n = buckets / 2, for
    |o| > n; smaller offsets are their own buckets, and larger ones share the outermost.

    If `max_distance` is not above n + 1, no sentence of that length has other offsets, and those of
    longer ones have fewer buckets or the outermost (Transformers computes the same). Without
    buckets, offsets are clipped to -max_distance .. max_distance - 1.
    """
    if buckets is None:
        return offsets.clamp(-max_distance, max_distance - 1)
    near = buckets // 2
    scale = math.log((max_distance - 1) / near) if max_distance > 1 else -math.inf
    ratio = (offsets.abs().clamp(min=1).double() / near).log() / scale
    far = (ratio * (near - 1)).ceil().nan_to_num(0.0).clamp(-buckets - near, buckets).long() + near
    rows = torch.where(offsets.abs() <= near, offsets, far * offsets.sign())
    return rows.clamp(-buckets, buckets - 1)
