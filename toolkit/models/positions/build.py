"""Encoders and attention with the position terms that are chosen by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes
from toolkit.models.positions.options import PositionConfig
from toolkit.nn.attention import (
    Attention,
    BucketBias,
    Content,
    ContentBias,
    ContentChange,
    ContentToPosition,
    DisentangledProjections,
    FixedKernel,
    Kernel,
    KeyKernel,
    LinearBias,
    LinearProjections,
    OffsetValues,
    PositionToContent,
    QueryKernel,
    Relative,
    RelativeToKey,
    Rotary,
    ScoreTerm,
    SinusoidalKernel,
    SoftmaxMap,
)
from toolkit.nn.embeddings import SinusoidalEncodings
from toolkit.nn.offset_embedding import OffsetEmbedding

DISENTANGLED_PRODUCTS = 3
"""Products in the scores of disentangled attention: of contents, and of each with positions."""


def build_encoder(
    c: PositionConfig,
    sizes: Sizes,
    attention: Callable[[], Attention],
    *,
    convolves: bool = False,
    groups: int = 1,
) -> Encoder:
    """The shared encoder; `convolves` says that positions also enter through convolutions."""
    names = c.position_names
    return Encoder(
        c,
        sizes,
        build_attentions(c, attention).__next__,
        absolute_positions="learned" in names,
        positions=SinusoidalEncodings((c.embedding_width or c.width) ** -0.5)
        if "sinusoidal" in names
        else None,
        takes_positions=c.encodes_order and not convolves,
        offset_embedding=OffsetEmbedding(
            c.position_buckets, c.max_distance, c.width, c.norm_epsilon
        )
        if "deberta" in names
        else None,
        groups=groups,
    )


def build_attentions(c: PositionConfig, attention: Callable[[], Attention]) -> Iterator[Attention]:
    """The attention of each layer; those between global layers attend within the window."""
    for layer in range(c.layers):
        built = attention()
        if c.attention_window is not None and c.is_local(layer):
            for part in built.modules():
                if isinstance(part, SoftmaxMap):
                    part.window_radius = c.attention_window // 2
                if isinstance(part, Rotary):
                    part.base = c.local_rope_base or c.rope_base
        yield built


def build_attention(c: PositionConfig) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v."""
    return Attention(c.width, build_projections(c), build_scores(c))


def build_projections(
    c: PositionConfig, heads: int | None = None, *, convolution_values: bool = False
) -> LinearProjections:
    """Queries, keys and values, with what the position terms change or add."""
    heads, names = heads or c.heads, c.position_names
    shape, changes = (c.width, heads, c.head_width), content_changes(c, heads)
    if "deberta" not in names:
        return LinearProjections(*shape, convolution_values=convolution_values, changes=changes)
    return DisentangledProjections(
        *shape, convolution_values=convolution_values, changes=changes, dropout=c.dropout
    )


def content_changes(c: PositionConfig, heads: int) -> list[ContentChange]:
    """Changes of the queries and keys of the product of contents."""
    changes: list[ContentChange] = []
    if "xl" in c.position_names:
        changes.append(ContentBias(heads, c.head_width))
    if "rope" in c.position_names:
        changes.append(Rotary(c.rope_base))
    return changes


def build_scores(
    c: PositionConfig, heads: int | None = None, extra: list[ScoreTerm] | None = None
) -> SoftmaxMap:
    """The attention map: content, the position terms, and `extra` terms of an architecture."""
    heads, names = heads or c.heads, c.position_names
    products = DISENTANGLED_PRODUCTS if "deberta" in names else 1
    content = Content(c.head_width, products)
    return SoftmaxMap(
        content,
        [*clipped_terms(c, heads), *unlimited_terms(c, heads, content.scale), *(extra or [])],
        c.attention_dropout,
        OffsetValues(c.head_width, c.radius) if c.shaw_values else None,
    )


def clipped_terms(c: PositionConfig, heads: int) -> list[ScoreTerm]:
    """Terms whose offsets are clipped to the radius."""
    names, parts = c.position_names, c.composite_parts
    kernels: list[Kernel] = []
    if "fixed" in names | parts:
        kernels.append(FixedKernel(heads, c.radius))
    if "shaw" in names or "dynamic" in parts:
        kernels.append(QueryKernel(c.head_width, c.radius))
    terms: list[ScoreTerm] = [Relative(kernels)] if kernels else []
    if "key_dynamic" in parts:
        terms.append(RelativeToKey([KeyKernel(c.head_width, c.radius)]))
    return terms


def unlimited_terms(c: PositionConfig, heads: int, scale: float) -> list[ScoreTerm]:
    """Terms with a value for every offset or bucket of offsets, without a radius."""
    names = c.position_names
    terms: list[ScoreTerm] = []
    if "alibi" in names:
        terms.append(LinearBias(heads))
    if "t5" in names:
        terms.append(BucketBias(heads))
    if "xl" in names:
        terms.append(Relative([SinusoidalKernel(c.width, heads, c.head_width)]))
    if "deberta" in names:
        terms += [
            Relative([ContentToPosition(scale)]),
            RelativeToKey([PositionToContent(scale)]),
        ]
    return terms
