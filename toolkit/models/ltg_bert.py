"""LTG-BERT (Samuel et al. 2023) and GPT-BERT (Charpentier and Samuel 2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_arch
from toolkit.config.declared import ADVANCED, Above, AtLeast, Below, NonNegativeInt, Size
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes
from toolkit.models.positions import PositionConfig, build_attention, build_encoder
from toolkit.nn.attention import SequenceContext
from toolkit.nn.layers import (
    Activation,
    FeedForward,
    LayerStack,
    NormName,
    TransformerLayer,
    build_norm,
    select_tokens,
)
from toolkit.nn.ops.layer_norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class LtgBertConfig(PositionConfig):
    """The options of the shared encoder, with LTG-BERT's defaults."""

    positions: list[str] = field(default_factory=lambda: ["deberta"])
    """How the order of tokens enters; several are added. deberta: content-to-position and
    position-to-content products; the others as in bert."""
    position_buckets: Annotated[int, AtLeast(2)] | None = field(default=32, metadata=ADVANCED)
    """Rows of the table of offsets on each side; the nearer half of them for one offset each. null:
    a row for each offset up to arch.max_distance (deberta)."""
    feed_forward_width: Size | None = 2560
    """Inner width of the feed-forward networks (intermediate size), for gated ones of each half."""
    activation: Activation = "geglu_tanh"
    """Activation function of the feed-forward networks. geglu, swiglu: gated by a second linear map
    (GLU). geglu_tanh: geglu with an approximation of gelu."""
    pre_norm: bool = True
    """Normalize the input of each sublayer, and the last states, instead of the sum after it."""
    norm: NormName = "plain"
    """Normalization: LayerNorm (layer), also without gain and bias (plain), or RMSNorm without
    centering and bias (rms). Of attention's output, LTG-BERT has a LayerNorm with both."""
    token_types: NonNegativeInt = 0
    """Rows of the token type table; 0 disables it."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = 1e-7
    """Epsilon of the norms."""


SMALL: dict[str, Any] = {"width": 384, "heads": 6, "feed_forward_width": 1280}
TINY: dict[str, Any] = {"layers": 2, "width": 128, "heads": 2, "feed_forward_width": 256}


@register_arch("ltg_bert_tiny", LtgBertConfig(**TINY))
@register_arch("ltg_bert_small", LtgBertConfig(**SMALL))
@register_arch("ltg_bert", LtgBertConfig())
def ltg_bert(c: LtgBertConfig, sizes: Sizes) -> Encoder:
    """x <- x + LN(attention(N(x))); x <- x + W_2 N((W_1 N(x)) * gelu(V N(x))) (section 3).

    N is LN without gain and bias, and attention that of deberta, which alone has biases, as in the
    authors' code. Their head drops out its input to the last map, this one does not.
    """
    encoder = build_encoder(c, sizes, lambda: build_attention(c))
    for layer in prepare_layers(c, encoder):
        norm = LayerNorm(c.width, eps=c.norm_epsilon)
        layer.attention.output = nn.Sequential(layer.attention.output, norm)
    return encoder


@dataclass(frozen=True, kw_only=True)
class GptBertConfig(LtgBertConfig):
    """The options of the shared encoder, with GPT-BERT's defaults."""

    norm: NormName = "plain"
    """Normalization: LayerNorm (layer), also without gain and bias (plain), or RMSNorm without
    centering and bias (rms)."""
    attention_gate: bool = True
    """Multiply the output of the heads by gelu(W x + b) of the layer's input x."""
    layer_average: bool = True
    """Let each sublayer read a learned weighted sum of the embeddings and of all sublayers before
    it (DenseFormer, Pagliardini et al. 2024)."""


@register_arch("gpt_bert_tiny", GptBertConfig(**TINY))
@register_arch("gpt_bert_small", GptBertConfig(**SMALL))
@register_arch("gpt_bert", GptBertConfig())
def gpt_bert(c: GptBertConfig, sizes: Sizes) -> Encoder:
    """LTG-BERT with attention W_O N(heads * gelu(W_g N(x) + b_g)), and weighted sums of all
    sublayers (section 3, and the authors' code).
    """
    encoder = build_encoder(c, sizes, lambda: build_attention(c))
    for layer in prepare_layers(c, encoder):
        attention = layer.attention
        norm = build_norm(c.norm, c.width, c.norm_epsilon)
        attention.output, attention.gate_activation = nn.Sequential(norm, attention.output), F.gelu
    if c.layer_average:
        encoder.layers = SublayerStack(encoder.layers)
    return encoder


def prepare_layers(c: LtgBertConfig, encoder: Encoder) -> Iterator[TransformerLayer]:
    """The layers with a norm inside their feed-forward networks, which have no biases, and with
    initial weights ~ N(0, 2 / (5 D)) within 2 sigma; those of feed-forward networks are divided by
    sqrt(2 n) in layer n, and all biases are 0.
    """
    init_weights(encoder, c.width)
    for number, layer in enumerate(encoder.layers, 1):
        assert isinstance(layer, TransformerLayer), "the encoder's are"
        layer.after_attention.norm = build_norm(c.norm, c.width, c.norm_epsilon)  # the first, too
        feed = layer.feed_forward
        assert isinstance(feed, FeedForward)
        init_weights(feed, c.width, 1 / math.sqrt(2 * number))
        for part in (feed.wide, feed.back):
            part.register_parameter("bias", None)
        feed.back = nn.Sequential(build_norm(c.norm, c.inner_width, c.norm_epsilon), feed.back)
        yield layer


def init_weights(module: nn.Module, width: int, factor: float = 1.0) -> None:
    """Weights of linear maps and tables ~ factor N(0, 2 / (5 D)), truncated at 2 sigma."""
    std = math.sqrt(2 / (5 * width))
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
            part.weight.data *= factor


class HalvedLayer(TransformerLayer):
    """The sublayers of a layer, of which each call computes one."""

    def __init__(self, layer: Any) -> None:
        residuals = iter((layer.after_attention, layer.after_feed_forward))
        super().__init__(layer.attention, layer.feed_forward, residual=residuals.__next__)

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B S D"], sequence: SequenceContext, name: str
    ) -> Float[Tensor, "B S D"]:
        """x with the output of the sublayer of this name added to it."""
        return self.add(name, x, *[sequence] * (name == "attention"))


class SublayerStack(LayerStack):
    """Layers whose sublayers read x_n = sum_j a_nj y_j over the input y_0 and y_j = x_{j-1} +
    f_j(x_{j-1}), with learned a, at first 1 for j = n and 0 elsewhere.
    """

    def __init__(self, layers: LayerStack) -> None:
        super().__init__(HalvedLayer(layer) for layer in layers)
        self.layer_weights = nn.Parameter(torch.eye(2 * len(layers) + 1)[1:])

    def forward(self, x: Any, context: object, selected: Int[Tensor, " N"] | None = None) -> Any:
        return self.list_states(x, context, selected)[-1]

    def list_states(
        self, x: Any, context: object, selected: Int[Tensor, " N"] | None = None
    ) -> list[Any]:
        """The input, and the output of every layer; of the last one, of the selected tokens."""
        outputs, states = [x], [x]
        for number, layer in enumerate(self, 1):
            x = self.mix(states, self.call_layer(layer, x, context, "attention"))
            if number == len(self):
                *states, x = (select_tokens(state, selected) for state in (*states, x))
            x = self.mix(states, self.call_layer(layer, x, context, "feed_forward"))
            outputs.append(x)
        return outputs

    def mix(self, states: list[Tensor], y: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """The weighted sum of the states so far and of y, which is added to them."""
        assert self.layer_weights is not None, "of this class"
        states.append(y)
        weights = self.layer_weights[len(states) - 2, : len(states)].to(y.dtype)
        return torch.stack([w * state for w, state in zip(weights, states, strict=True)]).sum(0)
