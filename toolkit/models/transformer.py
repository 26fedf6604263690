"""The Transformer (Vaswani et al. 2017), LightConv and DynamicConv (Wu et al. 2019).

The decoder of the Transformer is also a causal language model (Radford et al. 2018, 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import Layers, Rate, Size
from toolkit.models.encoder_decoder import (
    AttentionStackConfig,
    DecoderOnly,
    EncoderDecoder,
    EncoderDecoderConfig,
    build_self_attention,
)
from toolkit.models.interface import Sizes
from toolkit.nn.attention import (
    Attention,
    GatedProjection,
    Kernel,
    KernelMap,
    NormalizedKernel,
    TokenKernel,
)


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


@dataclass(frozen=True, kw_only=True)
class LightConvConfig(EncoderDecoderConfig):
    """Options of LightConv and DynamicConv."""

    encoder_kernels: list[Size] = field(default_factory=lambda: [3, 7, 15, 31, 31, 31, 31])
    """Kernel size of each encoder layer's convolution, in tokens, odd; one number per layer."""
    decoder_kernels: list[Size] = field(default_factory=lambda: [3, 7, 15, 31, 31, 31])
    """Kernel size of each decoder layer's convolution; the kernels end at the current token."""
    gated: bool = True
    """Apply a gated linear unit (GLU) before the convolution."""
    kernel_dropout: Rate = 0.1
    """Dropout rate of the normalized kernel weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("encoder_kernels", "decoder_kernels"):
            kernels: list[int] = getattr(self, name)
            if not kernels or any(size % 2 == 0 for size in kernels):
                raise ToolkitError(
                    f"arch.{name} must be one or more odd numbers, but is "
                    f"{','.join(map(str, kernels))}."
                )


BASE = LightConvConfig(share_embeddings="all")
BIG = replace(BASE, width=1024, heads=16, feed_forward_width=4096, dropout=0.3)
IWSLT = LightConvConfig(heads=4, feed_forward_width=1024, dropout=0.3)
TINY = LightConvConfig(
    encoder_kernels=[3, 7, 15, 31],
    decoder_kernels=[3, 7, 15, 31],
    width=128,
    heads=4,
    feed_forward_width=256,
    dropout=0.3,
)


@register_arch("lightconv", BASE)
@register_arch("lightconv_big", BIG)
@register_arch("lightconv_iwslt", IWSLT)
@register_arch("lightconv_tiny", TINY)
def lightconv(c: LightConvConfig, sizes: Sizes) -> EncoderDecoder:
    """W_O sum_m softmax(beta_h)_m x_{i+m}, x the gated input: one kernel per head (eq. 3)."""
    return build_encoder_decoder(c, sizes, lambda size: NormalizedKernel(c.heads, size))


@register_arch("dynamicconv", BASE)
@register_arch("dynamicconv_big", BIG)
@register_arch("dynamicconv_iwslt", IWSLT)
@register_arch("dynamicconv_tiny", TINY)
def dynamicconv(c: LightConvConfig, sizes: Sizes) -> EncoderDecoder:
    """W_O sum_m softmax(W x_i)_{h,m} x_{i+m}: kernels generated from the current token (eq. 5)."""
    return build_encoder_decoder(
        c, sizes, lambda size: TokenKernel(c.heads, c.head_width, size // 2, bias=False)
    )


def build_encoder_decoder(
    c: LightConvConfig, sizes: Sizes, kernel: Callable[[int], Kernel]
) -> EncoderDecoder:
    """An encoder and a decoder whose layers convolve with kernels from `kernel`."""

    def attention(size: int, *, left_only: bool) -> Attention:
        attention_map = KernelMap(kernel(size), size, c.kernel_dropout, left_only=left_only)
        return Attention(c.width, GatedProjection(c.width, c.heads, gated=c.gated), attention_map)

    return EncoderDecoder(
        c,
        sizes,
        [partial(attention, size, left_only=False) for size in c.encoder_kernels],
        [partial(attention, size, left_only=True) for size in c.decoder_kernels],
    )


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
