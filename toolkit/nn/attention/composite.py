"""fixed, shaw, composite: taps of offsets in a radius (Shaw et al. 2018; Chang et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_position
from toolkit.config.declared import Size
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel, OffsetValues, init_directions, tap_count
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import RelativeToKey, ScoreTerm
from toolkit.nn.ops.kernel_inputs import OffsetTables


@dataclass(frozen=True, kw_only=True)
class RadiusConfig(PositionOptions):
    """Options of fixed."""

    radius: Size = 8
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost (fixed, shaw,
    composite)."""


@dataclass(frozen=True, kw_only=True)
class ShawConfig(RadiusConfig):
    """Options of shaw."""

    shaw_values: bool = False
    """Also add a vector per offset to the values (Shaw et al. 2018, eq. 3; shaw)."""


@dataclass(frozen=True, kw_only=True)
class CompositeConfig(RadiusConfig):
    """Options of composite: each part can be switched off."""

    fixed: bool = True
    """Add a learned bias per head and offset to the scores (Chang et al. 2021, eq. 4)."""
    dynamic: bool = True
    """Add the product of the query and a vector per offset to the scores (eq. 5)."""
    key_dynamic: bool = False
    """Add the product of the key and a vector per offset to the scores."""


@register_position("fixed", RadiusConfig())
class Fixed(Position[RadiusConfig]):
    """A number per head and offset."""

    def kernels(self, shape: Shape) -> list[Kernel]:
        return [FixedKernel(shape.heads, self.options.radius, left_only=shape.causal)]


@register_position("shaw", ShawConfig())
class Shaw(Position[ShawConfig]):
    """A product of the query and a vector per offset, and perhaps a vector added to the values."""

    def kernels(self, shape: Shape) -> list[Kernel]:
        return [QueryKernel(shape.head_width, self.options.radius, left_only=shape.causal)]

    def values(self, shape: Shape) -> OffsetValues | None:
        values, radius = self.options.shaw_values, self.options.radius
        return OffsetValues(shape.head_width, radius) if values else None


@register_position("composite", CompositeConfig())
class Composite(Position[CompositeConfig]):
    """beta_{h, j-i} + q_i . w_{j-i} / sqrt(K) (Chang et al. 2021, eq. 6), and a term of the key."""

    excludes = ("fixed", "shaw")
    reason = "composite contains it"

    @property
    def encodes_order(self) -> bool:
        return self.options.fixed or self.options.dynamic or self.options.key_dynamic

    def kernels(self, shape: Shape) -> list[Kernel]:
        c, left = self.options, shape.causal
        kernels: list[Kernel] = []
        if c.fixed:
            kernels.append(FixedKernel(shape.heads, c.radius, left_only=left))
        if c.dynamic:
            kernels.append(QueryKernel(shape.head_width, c.radius, left_only=left))
        return kernels

    def terms(self, shape: Shape) -> list[ScoreTerm]:
        if not self.options.key_dynamic:
            return []
        return [RelativeToKey([KeyKernel(shape.head_width, self.options.radius)])]


class FixedKernel(Kernel):
    """beta_{h, j-i}, the same at every position (Chang et al. 2021, eq. 4)."""

    def __init__(self, heads: int, radius: int, *, left_only: bool = False) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(heads, tap_count(radius, left_only)))
        self.missing_taps = radius if left_only else 0

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H 1 R"]:
        return pad_right_taps(self.taps, self.missing_taps)[None, :, None]

    def tables(self) -> OffsetTables:
        return OffsetTables(bias=pad_right_taps(self.taps, self.missing_taps))


def pad_right_taps(taps: Float[Tensor, "*shape R"], missing: int) -> Float[Tensor, "*shape R2"]:
    """Append zeros for the omitted taps, which are never read."""
    return F.pad(taps, (0, missing)) if missing else taps


class QueryKernel(Kernel):
    """q_i . w_{j-i} / sqrt(K), one w for all heads (Chang et al. 2021, eq. 5; Shaw et al. 2018)."""

    def __init__(self, head_width: int, radius: int, *, left_only: bool = False) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(head_width)
        self.directions = init_directions(head_width, radius, left_only=left_only)
        self.missing_taps = radius if left_only else 0

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S R"]:
        taps = p.term_queries @ (self.scale * self.directions)  # (B, H, S, K) @ (K, R)
        return pad_right_taps(taps, self.missing_taps)

    def tables(self) -> OffsetTables:
        return OffsetTables(query=pad_right_taps(self.directions, self.missing_taps)[None])


class KeyKernel(Kernel):
    """k_j . w_{i-j} / sqrt(K), taps of the key (Chang et al. 2021, section 3.2)."""

    def __init__(self, head_width: int, radius: int) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(head_width)
        self.directions = init_directions(head_width, radius)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H T R"]:
        return p.term_keys @ (self.scale * self.directions)  # (B, H, T, K) @ (K, R)

    def key_tables(self) -> OffsetTables:
        return OffsetTables(key=self.directions[None])
