"""BERT with composite attention in place of absolute positions (Chang et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import Size
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes
from toolkit.models.positions import PositionConfig, build_encoder, build_projections, build_scores
from toolkit.nn.attention import Attention, ConvolvedProjections, DepthwiseValues
from toolkit.nn.attention.composite import CompositeConfig


@dataclass(frozen=True, kw_only=True)
class CompositeBertConfig(CompositeConfig, PositionConfig):
    """Options of composite attention: each term can be switched off."""

    positions: list[str] = field(default_factory=lambda: ["composite"])
    """How the order of tokens enters; several are added. composite: the terms that arch.fixed,
    arch.dynamic and arch.key_dynamic switch on; the others as in bert."""

    absolute_positions: bool = False
    """Add a learned position embedding, which limits the length of sentences."""
    depthwise: bool = False
    """Add a depthwise convolution of the values to the result (eq. 7)."""
    convolve: list[Literal["query", "key", "value"]] = field(default_factory=list)
    """Projections whose first half of the heads is convolved."""
    radius: Size = 8
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost. Convolutions
    end there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.convolve and self.heads % 2:
            raise ToolkitError(
                f"arch.heads must be even with arch.convolve, which convolves half of the heads, "
                f"but is {self.heads}."
            )
        for name, term in self.term_classes.items():
            if self.convolve and (term.overrides("changes") or term.overrides("project")):
                raise ToolkitError(
                    f"arch.convolve cannot be combined with {name} in arch.positions, which "
                    f"requires linear projections of queries and keys."
                )

    @property
    def position_names(self) -> list[str]:
        return [*self.positions, *["learned"] * self.absolute_positions]

    @property
    def options_of_other_parts(self) -> frozenset[str]:
        return frozenset({"radius"} if self.convolve or self.depthwise else ())


@register_arch(
    "composite_bert_tiny", CompositeBertConfig(layers=2, width=128, heads=2, embedding_width=64)
)
@register_arch("composite_bert_small", CompositeBertConfig(width=256, heads=4, embedding_width=128))
@register_arch("composite_bert", CompositeBertConfig())
def composite_bert(c: CompositeBertConfig, sizes: Sizes) -> Encoder:
    """Scores are q_i . k_j / sqrt(K) + beta_{j-i} + q_i . w_{j-i} / sqrt(K) (eq. 6)."""
    return build_encoder(
        c, sizes, lambda: build_attention(c), convolves=bool(c.convolve or c.depthwise)
    )


def build_attention(c: CompositeBertConfig) -> Attention:
    """Attention with projections that `convolve` names convolved, and `depthwise` values."""
    project = (
        ConvolvedProjections(c.width, c.heads, c.radius, c.convolve)
        if c.convolve
        else build_projections(c)
    )
    scores, values = build_scores(c), DepthwiseValues(c.width, c.radius) if c.depthwise else None
    return Attention(c.width, project, scores, values)
