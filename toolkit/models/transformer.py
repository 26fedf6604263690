"""The Transformer (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.registry import register_arch
from toolkit.models.encoder import check_at_least_one
from toolkit.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from toolkit.models.interface import Sizes
from toolkit.models.relative_terms import RELATIVE, build_self_attention
from toolkit.models.transformer_stack import check_choice


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderDecoderConfig):
    encoder_layers: int = 6
    """Layers that read."""
    decoder_layers: int = 6
    """Layers that write."""
    relative: str = "none"
    """What self-attention adds to its scores for offsets: none, t5 (a number for each head and
    bucket), shaw (a product of the query), or composite (a number and a product); the decoder's
    look to the left alone."""
    radius: int = 16
    """Furthest offset with a tap of its own, in tokens (shaw, composite); farther ones share the
    outermost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("encoder_layers", "decoder_layers", "radius"):
            check_at_least_one(name, getattr(self, name))
        check_choice("relative", self.relative, RELATIVE)


@register_arch(
    "transformer_tiny",
    TransformerConfig(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward_width=256, dropout=0.3
    ),
)
@register_arch(
    "transformer_iwslt",
    TransformerConfig(heads=4, feed_forward_width=1024, dropout=0.3),
)
@register_arch("transformer", TransformerConfig(share_embeddings="all"))
@register_arch(
    "transformer_big",
    TransformerConfig(
        width=1024, heads=16, feed_forward_width=4096, dropout=0.3, share_embeddings="all"
    ),
)
def transformer(c: TransformerConfig, sizes: Sizes) -> EncoderDecoder:
    """Scores are q_i . k_j / sqrt(K), with relative terms where they are asked for."""
    return EncoderDecoder(
        c,
        sizes,
        [lambda: build_self_attention(c, c.relative, c.radius, left_only=False)] * c.encoder_layers,
        [lambda: build_self_attention(c, c.relative, c.radius, left_only=True)] * c.decoder_layers,
    )
