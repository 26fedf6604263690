"""Options of encoders whose position terms are chosen by name: `--arch.positions rope,fixed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import ADVANCED, AtLeast, PositiveFloat, Size, changed_options
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

CLIPPED: tuple[PositionName, ...] = ("fixed", "shaw", "composite")
TERM_OPTIONS: Mapping[str, Sequence[PositionName]] = {
    "radius": CLIPPED,
    "shaw_values": ("shaw",),
    "rope_base": ("rope",),
    "local_rope_base": ("rope",),
    "position_buckets": ("deberta",),
    "max_distance": ("deberta",),
    "fixed": ("composite",),
    "dynamic": ("composite",),
    "key_dynamic": ("composite",),
}
"""Option -> the position terms that read it."""
WINDOW_OPTIONS = {"global_every", "local_rope_base"}


@dataclass(frozen=True, kw_only=True)
class PositionConfig(EncoderConfig):
    """Options of encoders whose position terms are chosen by name."""

    positions: list[PositionName] = field(default_factory=lambda: ["learned"])
    """How the order of tokens enters; several are added. none: not at all; learned, sinusoidal:
    vectors added to the token embeddings; rope: queries and keys rotated by their positions; alibi:
    a constant slope per head; t5: a number per bucket; shaw: a product of the query and a vector
    per offset; xl: Transformer-XL's products with projected sinusoids; deberta:
    content-to-position and position-to-content products; fixed: a number per head and offset;
    composite: fixed and shaw."""
    radius: Size = 8
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost (fixed, shaw,
    composite)."""
    shaw_values: bool = False
    """Also add a vector per offset to the values (Shaw et al. 2018, eq. 3; shaw)."""
    rope_base: PositiveFloat = 10_000.0
    """Base of the rotary frequencies (rope)."""
    attention_window: Annotated[int, AtLeast(2)] | None = None
    """Sliding-window attention: layers between global ones attend to tokens at a distance of up to
    half of it, on both sides; by default all layers are global."""
    global_every: Size = 3
    """With arch.attention_window, the first layer and every N-th layer after it are global."""
    local_rope_base: PositiveFloat | None = None
    """Base of the rotary frequencies in sliding-window layers; by default arch.rope_base (rope)."""
    position_buckets: Annotated[int, AtLeast(2)] = field(default=256, metadata=ADVANCED)
    """Rows of the table of offsets on each side; the nearer half of them for one offset each
    (deberta)."""
    max_distance: Size = field(default=512, metadata=ADVANCED)
    """Distance at which the logarithmic buckets end, in tokens (deberta)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positions(self.positions)
        self.check_term_options()
        if "deberta" in self.positions and self.max_distance <= self.position_buckets // 2 + 1:
            raise ToolkitError(
                f"arch.max_distance must be above arch.position_buckets / 2 + 1, where logarithmic "
                f"buckets begin, but is {self.max_distance} with {self.position_buckets} buckets."
            )
        if "rope" in self.positions:
            check_rotary_width(self.head_width)

    def check_term_options(self) -> None:
        """Raise if an option is set that only absent position terms read."""
        for name in changed_options(self) & TERM_OPTIONS.keys() - self.options_of_other_parts:
            terms = TERM_OPTIONS[name]
            if not self.position_names.intersection(terms):
                one_of = " or ".join(filter(None, [", ".join(terms[:-1]), terms[-1]]))
                raise ToolkitError(
                    f"arch.{name} requires {one_of} in arch.positions, "
                    f"which are {', '.join(self.positions)}. Add it, or leave arch.{name} out."
                )
        for name in changed_options(self) & WINDOW_OPTIONS:
            if self.attention_window is None:
                raise ToolkitError(
                    f"arch.{name} requires arch.attention_window. Add it, or leave arch.{name} out."
                )

    @property
    def options_of_other_parts(self) -> frozenset[str]:
        """Options of position terms that other parts of the architecture read as well."""
        return frozenset()

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
