"""alibi, t5, rope, xl: terms of the offset from other papers, each a class with few numbers.

ALiBi (Press et al. 2022), T5 (Raffel et al. 2020), rotary position embeddings (Su et al. 2021) and
Transformer-XL (Dai et al. 2019, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_position
from toolkit.config.declared import PositiveFloat
from toolkit.nn.attention.absolute import sinusoidal_encodings
from toolkit.nn.attention.inputs import AttentionInputs, rotate, scatter_to_diagonals
from toolkit.nn.attention.kernels import SharedKernel
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import ContentChange, Relative, ScoreTerm
from toolkit.nn.init import copy_to_device


@register_position("alibi", PositionOptions())
class Alibi(Position[PositionOptions]):
    """A constant slope per head."""

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        return [LinearBias(shape.heads)]


class LinearBias(ScoreTerm):
    """-m_h |j - i|: attention falls with the distance on both sides (Press et al. 2022, section 3).

    The constants m_h are 2^(-8 h / H), h = 1 .. H, if H is a power of two. Otherwise they are those
    of the largest smaller one, then every other one of twice as many, as in the authors' code.
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


@register_position("t5", PositionOptions())
class T5(Position[PositionOptions]):
    """A number per head and bucket."""

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        return [BucketBias(shape.heads, left_only=shape.causal)]


class BucketBias(ScoreTerm):
    """beta_{h, bucket(j - i)} (Raffel et al. 2020, section 2.1).

    The defaults are T5's, whose layers share the biases of the first; here each has its own. With
    `left_only` all buckets are for positions on the left.
    """

    def __init__(
        self, heads: int, buckets: int = 32, max_distance: int = 128, *, left_only: bool = False
    ) -> None:
        super().__init__()
        self.max_distance, self.left_only = max_distance, left_only
        self.numbers = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        queries, keys, offsets = p.q.shape[2], p.k.shape[2], p.sequence.offsets
        if torch.compiler.is_exporting():  # lengths are symbols
            buckets, left_only = self.numbers.shape[1], self.left_only
            index = bucket_indices(
                offsets.differences, buckets, self.max_distance, left_only=left_only
            )
            return self.numbers[:, index].transpose(0, 1).to(p.q.dtype)  # -> (B, H, S, T)
        if not offsets.shared:
            taps = self.by_offset(offsets.max_offset + 1).to(p.q.dtype)
            return scatter_to_diagonals(taps[None, :, None].expand(-1, -1, queries, -1), offsets)
        diagonals = self.by_offset(keys)[:, : keys + queries - 1]
        # The query at position i reads T numbers from offset -i; the last query is at T - 1.
        bias = diagonals.unfold(-1, keys, 1).flip(1)  # (H, T + S - 1) -> (H, S, T)
        return bias[None].to(p.q.dtype)

    def by_offset(self, length: int) -> Float[Tensor, "H O"]:
        """The number of each offset 1 - length .. length - 1."""
        device, buckets = self.numbers.device, self.numbers.shape[1]
        one_hot = bucket_one_hot(length, buckets, self.max_distance, self.left_only, device)
        return self.numbers @ one_hot.to(self.numbers.dtype).mT


@lru_cache(maxsize=8)
def bucket_one_hot(
    length: int, buckets: int, max_distance: int, left_only: bool, device: torch.device
) -> Float[Tensor, "O U"]:
    """1 at the bucket of each offset 1 - length .. length - 1, else 0: gradients of products with
    it are summed in a fixed order.
    """
    with torch.inference_mode(False):
        offsets = torch.arange(1 - length, length)
        indices = bucket_indices(offsets, buckets, max_distance, left_only=left_only)
        return copy_to_device(F.one_hot(indices, buckets).float(), device)


def bucket_indices(
    offsets: Int[Tensor, " O"], buckets: int, max_distance: int, *, left_only: bool
) -> Int[Tensor, " O"]:
    """Buckets of offsets j - i (Raffel et al. 2020, section 2.1): half of them for one near offset
    each, the others logarithmic up to `max_distance`; the last takes all larger offsets. Unless
    `left_only`, the second half of all buckets is for j > i.
    """
    side = torch.zeros_like(offsets)
    distance = (-offsets).clamp(min=0)
    if not left_only:
        buckets //= 2
        side, distance = (offsets > 0) * buckets, offsets.abs()
    near = buckets // 2
    far = (distance.clamp(min=1) / near).log() / math.log(max_distance / near) * (buckets - near)
    wide = (near + far.long()).clamp(max=buckets - 1)
    return side + torch.where(distance < near, distance, wide)


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(PositionOptions):
    """Options of rope."""

    rope_base: PositiveFloat = 10_000.0
    """Base of the rotary frequencies (rope)."""


@dataclass(frozen=True, kw_only=True)
class LocalRotaryConfig(RotaryConfig):
    """Options of rope in encoders, which may have sliding windows."""

    local_rope_base: PositiveFloat | None = None
    """Base of the rotary frequencies in sliding-window layers; by default arch.rope_base (rope)."""


@register_position("rope", LocalRotaryConfig())
class Rope(Position[LocalRotaryConfig]):
    """Queries and keys rotated by their positions, in pairs of columns."""

    head_multiple = 2

    def changes(self, shape: Shape) -> list[ContentChange]:
        return [Rotary(self.options.rope_base, self.options.local_rope_base)]


class Rotary(ContentChange):
    """R_p q and R_p k: columns c and c + K / 2 rotated by p base^(-2c / K) (Su et al. 2021, 3.4.2),
    so that (R_i q) . (R_j k) depends on positions through j - i only. As in GPT-NeoX and ModernBERT
    the halves of a head are paired; the paper pairs neighboring columns.
    """

    def __init__(self, base: float = 10_000.0, local_base: float | None = None) -> None:
        super().__init__()
        self.base, self.local_base = base, local_base

    def restrict(self) -> None:
        self.base = self.local_base or self.base

    def extra_repr(self) -> str:
        """The base of the frequencies, shown when the module is printed."""
        return f"base={self.base:g}"

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        rotations = p.sequence.offsets.rotations(p.q.shape[-1], self.base, p.q.dtype)
        return p.with_content(rotate(p.q, rotations), rotate(p.k, rotations))


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
    """(q_i + v) . (W s_{i-j}) / sqrt(K), s sinusoidal encodings of all offsets in use: terms (b)
    and (d) of the paper; (a) and (c) are the product of queries with `ContentBias`. For encoders
    there are offsets of both signs, as in XLNet.
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
