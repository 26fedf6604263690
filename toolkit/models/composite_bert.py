"""BERT with composite attention in place of absolute positions (Chang et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import PositiveInt
from toolkit.models.encoder import Encoder, EncoderConfig
from toolkit.models.interface import Sizes
from toolkit.nn.attention import (
    Attention,
    Content,
    ConvolvedProjections,
    DepthwiseValues,
    FixedKernel,
    Kernel,
    KeyKernel,
    LinearProjections,
    PlainValues,
    QueryKernel,
    Relative,
    RelativeToKey,
    ScoreTerm,
    SoftmaxMap,
)


@dataclass(frozen=True, kw_only=True)
class CompositeBertConfig(EncoderConfig):
    """Options of composite attention: each term can be switched off."""

    absolute_positions: bool = False
    """Add a learned position embedding, which limits the length of sentences."""
    fixed: bool = True
    """Add a learned bias per head and offset to the scores (Chang et al. 2021, eq. 4)."""
    dynamic: bool = True
    """Add the product of the query and a vector per offset to the scores (eq. 5)."""
    key_dynamic: bool = False
    """Add the product of the key and a vector per offset to the scores."""
    depthwise: bool = False
    """Add a depthwise convolution of the values to the result (eq. 7)."""
    convolve: list[Literal["query", "key", "value"]] = field(default_factory=list)
    """Projections whose first half of the heads is convolved."""
    radius: PositiveInt = 8
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.convolve and self.heads % 2:
            raise ToolkitError(
                f"arch.heads must be even with arch.convolve, which convolves half of the heads, "
                f"but is {self.heads}."
            )

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.absolute_positions else None


@register_arch(
    "composite_bert_tiny", CompositeBertConfig(layers=2, width=128, heads=2, embedding_width=64)
)
@register_arch("composite_bert_small", CompositeBertConfig(width=256, heads=4, embedding_width=128))
@register_arch("composite_bert", CompositeBertConfig())
def composite_bert(c: CompositeBertConfig, sizes: Sizes) -> Encoder:
    """Scores are q_i . k_j / sqrt(K) + beta_{j-i} + q_i . w_{j-i} / sqrt(K) (eq. 6)."""
    convolutions = bool(c.convolve or c.depthwise)
    return Encoder(
        c,
        sizes,
        lambda: Attention(c.width, projections(c), scores(c), values(c)),
        absolute_positions=c.absolute_positions,
        takes_positions=not convolutions
        and (c.absolute_positions or c.fixed or c.dynamic or c.key_dynamic),
    )


def projections(c: CompositeBertConfig) -> LinearProjections | ConvolvedProjections:
    """Projections of a layer, convolved in the parts that `convolve` names."""
    if c.convolve:
        return ConvolvedProjections(c.width, c.heads, c.radius, c.convolve)
    return LinearProjections(c.width, c.heads)


def scores(c: CompositeBertConfig) -> SoftmaxMap:
    """The attention map: content, and the kernels that the options switch on."""
    kernels: list[Kernel] = []
    if c.fixed:
        kernels.append(FixedKernel(c.heads, c.radius))
    if c.dynamic:
        kernels.append(QueryKernel(c.head_width, c.radius))
    terms: list[ScoreTerm] = [Relative(kernels)] if kernels else []
    if c.key_dynamic:
        terms.append(RelativeToKey([KeyKernel(c.head_width, c.radius)]))
    return SoftmaxMap(Content(c.head_width), terms, c.attention_dropout)


def values(c: CompositeBertConfig) -> PlainValues | DepthwiseValues:
    """Values of a layer, with a depthwise convolution if `depthwise` is set."""
    return DepthwiseValues(c.width, c.radius) if c.depthwise else PlainValues()
