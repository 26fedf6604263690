"""Encoders that differ in their defaults: BERT, DeBERTa and ModernBERT.

DeBERTa is as in its second and third version (He et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import Above, AtLeast, Below, NonNegativeInt, PositiveFloat, Rate, Size
from toolkit.models.encoder import Encoder, check_multiple
from toolkit.models.interface import Sizes
from toolkit.models.positions import PositionConfig, build_attention, build_encoder
from toolkit.nn.layers import Activation, InputConvolution, TransformerLayer


@dataclass(frozen=True, kw_only=True)
class BertConfig(PositionConfig):
    """The options of the shared encoder and of its position terms only."""


@register_arch("bert_tiny", BertConfig(layers=2, width=128, heads=2, embedding_width=64))
@register_arch("bert_small", BertConfig(width=256, heads=4, embedding_width=128))
@register_arch("bert", BertConfig())
def bert(c: BertConfig, sizes: Sizes) -> Encoder:
    """Scores are q_i . k_j / sqrt(K), and the position terms that are chosen by name."""
    return build_encoder(c, sizes, lambda: build_attention(c))


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(PositionConfig):
    """The options of the shared encoder, with DeBERTa's defaults."""

    positions: list[str] = field(default_factory=lambda: ["deberta"])
    """How the order of tokens enters; several are added. deberta: content-to-position and
    position-to-content products; the others as in bert."""
    token_types: NonNegativeInt = 0
    """Rows of the token type table; 0 disables it."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = 1e-7
    """Epsilon of the layer norms."""
    convolution_size: NonNegativeInt = 0
    """Kernel size, odd, of a convolution of the embeddings that is added to the output of the first
    layer: 3 in the largest models of DeBERTa's second version; 0 for none."""
    convolution_groups: Size = 1
    """Groups of channels of arch.convolution_size."""
    convolution_activation: Literal["tanh", "gelu", "relu", "silu"] = "tanh"
    """Activation function after arch.convolution_size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple("width", self.width, "convolution_groups", self.convolution_groups)
        if self.convolution_size and self.convolution_size % 2 == 0:
            raise ToolkitError(
                f"arch.convolution_size must be odd, but is {self.convolution_size}. Add 1."
            )


@register_arch("deberta_tiny", DebertaConfig(layers=2, width=128, heads=2))
@register_arch("deberta_small", DebertaConfig(width=256, heads=4))
@register_arch("deberta", DebertaConfig())
def deberta(c: DebertaConfig, sizes: Sizes) -> Encoder:
    """Scores are (q_i . k_j + q_i . k^r_{i-j} + k_j . q^r_{i-j}) / sqrt(3 K) (eq. 4).

    deberta_small and deberta_tiny have embeddings of the model's width. As in Transformers, there
    are no absolute positions before the output layer (the paper's section 3.2).
    """
    size = c.convolution_size
    encoder = build_encoder(c, sizes, lambda: build_attention(c), convolves=size > 0)
    if size:
        first = encoder.layers[0]
        assert isinstance(first, TransformerLayer)
        options = c.convolution_groups, c.convolution_activation, c.dropout, c.norm_epsilon
        first.convolution = InputConvolution(c.width, size, *options)
        encoder.can_be_causal = False
        encoder.packs = False
    return encoder


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(PositionConfig):
    """The options of the shared encoder, with ModernBERT's defaults."""

    positions: list[str] = field(default_factory=lambda: ["rope"])
    """How the order of tokens enters; several are added. rope: queries and keys rotated by their
    positions; the others as in bert."""
    rope_base: PositiveFloat = 160_000.0
    """Base of the rotary frequencies in global layers (rope)."""
    local_rope_base: PositiveFloat | None = 10_000.0
    """Base of the rotary frequencies in sliding-window layers; by default arch.rope_base (rope)."""
    attention_window: Annotated[int, AtLeast(2)] | None = 128
    """Sliding-window attention: layers between global ones attend to tokens at a distance of up to
    half of it, on both sides."""
    activation: Activation = "geglu"
    """Activation function of the feed-forward networks. geglu, swiglu: gated by a second linear map
    (GLU)."""
    pre_norm: bool = True
    """Normalize the input of each sublayer, and the last states, instead of the sum after it."""
    biases: bool = False
    """Biases of linear maps and layer norms, also in heads that predict tokens."""
    token_types: NonNegativeInt = 0
    """Rows of the token type table; 0 for none."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = 1e-5
    """Epsilon of the norms."""
    max_positions: Size = 8192
    """Rows of the absolute position table, if any: maximum number of tokens per sentence."""
    dropout: Rate = 0.0
    """Dropout rate after the embeddings and after each sublayer."""
    attention_dropout: Rate = 0.0
    """Dropout rate of the attention weights."""


@register_arch(
    "modernbert_tiny", ModernBertConfig(layers=4, width=128, heads=2, feed_forward_width=192)
)
@register_arch("modernbert", ModernBertConfig(layers=22, feed_forward_width=1152))
def modernbert(c: ModernBertConfig, sizes: Sizes) -> Encoder:
    """x <- x + attention(LN(x)); x <- x + W_2 (gelu(W_1 LN(x)) * (V LN(x))) (section 2.1).

    Every third layer is global, the first one included; the others attend within the window. As in
    Transformers the first attention reads the normalized embeddings without another norm.
    """
    return build_encoder(c, sizes, lambda: build_attention(c))
