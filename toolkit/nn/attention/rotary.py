"""rope: rotary position embeddings (Su et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.registry import register_position
from toolkit.config.declared import PositiveFloat
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.position import Position, PositionOptions, Shape
from toolkit.nn.attention.terms import ContentChange
from toolkit.nn.ops.rotation import rotate


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
    """R_p q and R_p k: columns c and c + K / 2 rotated by p base^(-2c / K) (Su et al. 2021, 3.4.2).

    So (R_i q) . (R_j k) depends on positions through j - i only. As in GPT-NeoX and ModernBERT the
    halves of a head are paired; the paper pairs neighboring columns, which differs by a permutation
    of the columns.
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
