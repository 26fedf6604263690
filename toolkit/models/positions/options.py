"""Options of encoders whose position terms are chosen by name: `--arch.positions rope,fixed`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import AtLeast, PositiveFloat, PositiveInt
from toolkit.config.options import ADVANCED
from toolkit.models.encoder import EncoderConfig, scale_width
from toolkit.models.positions.pairs import check_positions

PositionName = Literal[
    "none",
    "learned",
    "sinusoidal",
    "rope",
    "alibi",
    "t5",
    "shaw",
    "xl",
    "deberta",
    "fixed",
    "composite",
]


@dataclass(frozen=True, kw_only=True)
class PositionConfig(EncoderConfig):
    """Options of encoders whose position terms are chosen by name."""

    positions: list[PositionName] = field(default_factory=lambda: ["learned"])
    """How the order of tokens enters; several are added. none: not at all; learned, sinusoidal:
    vectors added to the token embeddings; rope: queries and keys rotated by their positions; alibi:
    a constant slope per head; t5: a number per bucket; shaw: a product of the query and a vector
    per offset; xl: Transformer-XL's products with projected sinusoids; deberta: content to position
    and position to content; fixed: a number per head and offset; composite: fixed and shaw."""
    radius: PositiveInt = 8
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost (fixed, shaw,
    composite)."""
    shaw_values: bool = False
    """Also add a vector per offset to the values (Shaw et al. 2018, eq. 3; shaw)."""
    rope_base: PositiveFloat = 10_000.0
    """Base of the rotary frequencies (rope)."""
    attention_window: Annotated[int, AtLeast(2)] | None = None
    """Sliding-window attention: layers between global ones attend to tokens at a distance of up to
    half of it, on both sides; by default all layers are global."""
    global_every: PositiveInt = 3
    """With arch.attention_window, the first layer and each one after this many is global."""
    local_rope_base: PositiveFloat | None = None
    """Base of the rotary frequencies in sliding-window layers; by default arch.rope_base (rope)."""
    position_buckets: Annotated[int, AtLeast(2)] = field(default=256, metadata=ADVANCED)
    """Rows of the table of offsets on each side; the nearer half of them for one offset each
    (deberta)."""
    max_distance: PositiveInt = field(default=512, metadata=ADVANCED)
    """Distance at which the logarithmic buckets end, in tokens (deberta)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positions(self.positions)
        if self.shaw_values and "shaw" not in self.positions:
            raise ToolkitError(
                f"arch.shaw_values requires shaw in arch.positions, which are "
                f"{', '.join(self.positions)}. Add it, or leave arch.shaw_values out."
            )
        if "deberta" in self.positions and self.max_distance <= self.position_buckets // 2 + 1:
            raise ToolkitError(
                f"arch.max_distance must be above arch.position_buckets / 2 + 1, where logarithmic "
                f"buckets begin, but is {self.max_distance} with {self.position_buckets} buckets."
            )
        if "rope" in self.positions:
            check_rotary_width(self.head_width)

    @property
    def position_names(self) -> frozenset[PositionName]:
        """The names of all terms."""
        return frozenset(self.positions)

    @property
    def composite_parts(self) -> frozenset[str]:
        """Parts of the term composite: fixed, dynamic, key_dynamic."""
        return frozenset({"fixed", "dynamic"} if "composite" in self.positions else ())

    @property
    def encodes_order(self) -> bool:
        """Whether any term depends on positions."""
        return bool(self.composite_parts or self.position_names - {"none", "composite"})

    def is_local(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends within the window only."""
        return self.attention_window is not None and layer % self.global_every > 0

    @property
    def max_length(self) -> int | None:
        return self.max_positions if "learned" in self.position_names else None

    def scaled_options(self, fraction: float) -> dict[str, int]:
        options = super().scaled_options(fraction)
        if "rope" in self.positions:  # heads of an even width
            options["width"] = scale_width(self.width, fraction, 2 * options["heads"])
        return options


def check_rotary_width(head_width: int) -> None:
    """Raise a ToolkitError if the columns of a head cannot be rotated in pairs."""
    if head_width % 2:
        raise ToolkitError(
            f"The width of a head must be even with rope, which rotates pairs of columns, but "
            f"arch.width / arch.heads is {head_width}."
        )
