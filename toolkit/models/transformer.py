"""The Transformer (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.registry import register_arch
from toolkit.config.declared import Layers
from toolkit.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from toolkit.models.interface import Sizes
from toolkit.models.transformer_stack import AttentionStackConfig, build_self_attention


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderDecoderConfig, AttentionStackConfig):
    """Options of the Transformer."""

    encoder_layers: Layers = 6
    """Number of encoder layers."""
    decoder_layers: Layers = 6
    """Number of decoder layers."""


@register_arch(
    "transformer_tiny",
    TransformerConfig(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward_width=256, dropout=0.3
    ),
)
@register_arch(
    "transformer_iwslt", TransformerConfig(heads=4, feed_forward_width=1024, dropout=0.3)
)
@register_arch("transformer", TransformerConfig(share_embeddings="all"))
@register_arch(
    "transformer_big",
    TransformerConfig(
        width=1024, heads=16, feed_forward_width=4096, dropout=0.3, share_embeddings="all"
    ),
)
def transformer(c: TransformerConfig, sizes: Sizes) -> EncoderDecoder:
    """Scores are q_i . k_j / sqrt(K), plus relative terms if chosen."""
    return EncoderDecoder(
        c,
        sizes,
        [lambda: build_self_attention(c, causal=False)] * c.encoder_layers,
        [lambda: build_self_attention(c, causal=True)] * c.decoder_layers,
    )
