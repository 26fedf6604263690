"""The decoder of the Transformer as a causal language model (Radford et al. 2018, 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.common.registry import register_arch
from toolkit.config.declared import Layers
from toolkit.models.encoder_decoder import AttentionStackConfig, DecoderOnly, build_self_attention
from toolkit.models.interface import Sizes


@dataclass(frozen=True, kw_only=True)
class TransformerLMConfig(AttentionStackConfig):
    """Options of the causal language model."""

    layers: Layers = 6
    """Number of layers, each attention and a feed-forward network."""
    share_embeddings: bool = True
    """Share one table between token embedding and output scores."""


GPT = TransformerLMConfig(
    layers=12,
    width=768,
    heads=12,
    feed_forward_width=3072,
    activation="gelu",
    positions=["learned"],
    max_positions=512,
    scale_embedding=False,
    attention_dropout=0.1,
)


@register_arch(
    "transformer_lm_tiny",
    TransformerLMConfig(layers=2, width=128, heads=4, feed_forward_width=512, pre_norm=True),
)
@register_arch("transformer_lm", TransformerLMConfig())
@register_arch(
    "transformer_lm_big",
    TransformerLMConfig(layers=12, width=1024, heads=16, feed_forward_width=4096),
)
@register_arch("transformer_lm_gpt", GPT)
@register_arch("transformer_lm_gpt2", replace(GPT, max_positions=1024, pre_norm=True))
def transformer_lm(c: TransformerLMConfig, sizes: Sizes) -> DecoderOnly:
    """p(w_t | w_1 .. w_{t-1}) by attention to the left."""
    attention = [lambda: build_self_attention(c, causal=True)] * c.layers
    return DecoderOnly(c, sizes, attention, tied=c.share_embeddings)
