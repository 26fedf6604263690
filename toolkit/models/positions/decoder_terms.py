"""Self-attention with a relative position term chosen by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Hint, Size, changed_options
from toolkit.models.positions.options import check_rotary_width
from toolkit.models.transformer_stack import TransformerStackConfig
from toolkit.nn.attention import (
    Attention,
    BucketBias,
    Content,
    FixedKernel,
    LinearBias,
    LinearProjections,
    QueryKernel,
    Relative,
    Rotary,
    ScoreTerm,
    SoftmaxMap,
)


@dataclass(frozen=True, kw_only=True)
class RelativeConfig(TransformerStackConfig):
    """Options of Transformer stacks with a relative position term."""

    positions: Annotated[
        Literal["sinusoidal", "learned", "none"],
        Hint("Relative terms are values of arch.relative."),
    ] = "sinusoidal"
    """Position encodings added to the token embeddings. Relative terms are values of
    arch.relative."""
    relative: Literal["none", "rope", "alibi", "t5", "shaw", "composite"] = "none"
    """Relative position term of self-attention: queries and keys rotated by their positions (rope),
    a constant slope per head (alibi), a number per head and bucket (t5), a product with the query
    (shaw), or a number and a product (composite). Decoders see the left side only."""
    radius: Size = 16
    """Maximum offset with a separate tap, in tokens (shaw, composite); larger ones share the
    outermost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "radius" in changed_options(self) and self.relative not in ("shaw", "composite"):
            raise ToolkitError(
                f"arch.radius requires arch.relative shaw or composite, but it is {self.relative}. "
                f"Choose one of them, or leave arch.radius out."
            )
        if self.relative == "rope":
            check_rotary_width(self.head_width)


def build_relative_terms(c: RelativeConfig, *, left_only: bool) -> list[ScoreTerm]:
    """Terms added to the scores q_i . k_j / sqrt(K); offsets beyond the radius are clipped to it.

    alibi: -m_h |j - i| (Press et al. 2022). t5: beta_{h, bucket(j-i)}, 32 buckets (Raffel et al.
    2020). shaw: q_i . w_{j-i} / sqrt(K), the term of the keys in Shaw et al. 2018. composite:
    beta_{h, j-i} + q_i . w_{j-i} / sqrt(K) (Chang et al. 2021, eq. 6).
    """
    if c.relative == "alibi":
        return [LinearBias(c.heads)]
    if c.relative == "t5":
        return [BucketBias(c.heads, left_only=left_only)]
    if c.relative == "shaw":
        return [Relative([QueryKernel(c.head_width, c.radius, left_only=left_only)])]
    if c.relative == "composite":
        fixed = FixedKernel(c.heads, c.radius, left_only=left_only)
        return [Relative([fixed, QueryKernel(c.head_width, c.radius, left_only=left_only)])]
    return []


def build_self_attention(c: RelativeConfig, *, left_only: bool) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v, q and k rotated with rope (Su et al. 2021)."""
    changes = [Rotary()] if c.relative == "rope" else []
    terms = build_relative_terms(c, left_only=left_only)
    attention_map = SoftmaxMap(Content(c.head_width), terms, c.attention_dropout)
    return Attention(c.width, LinearProjections(c.width, c.heads, changes=changes), attention_map)
