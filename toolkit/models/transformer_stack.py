"""Stack of embeddings and Transformer layers, for encoders and decoders of generative models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.config.declared import Rate, Size
from toolkit.models.interface import ArchConfig
from toolkit.models.positions import (
    ChosenPositions,
    build_projections,
    build_scores,
    check_plugins,
    find_part,
)
from toolkit.nn.attention import (
    Attention,
    Content,
    CrossAttention,
    CrossAttentionSource,
    Offsets,
    SequenceContext,
    SoftmaxMap,
    TableShape,
)
from toolkit.nn.attention.composite import ShawConfig
from toolkit.nn.attention.rotary import RotaryConfig
from toolkit.nn.decoding_cache import DecodingCache
from toolkit.nn.embeddings import Embeddings
from toolkit.nn.layers import GENERATIVE_NAMES, FeedForward, LayerStack, Residual, TransformerLayer
from toolkit.nn.ops.layer_norm import LayerNorm

NORM_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class StackConfig(ChosenPositions, ArchConfig):
    """Options shared by encoder-decoder models and language models."""

    decodes = True
    attends = False

    width: Size = 512
    """Width of the hidden states (hidden size); a multiple of heads."""
    heads: Size = 8
    """Number of attention heads."""
    feed_forward_width: Size = 2048
    """Inner width of the feed-forward networks."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation function of the feed-forward networks."""
    pre_norm: bool = False
    """Normalize the input of each sublayer, and the last states, instead of the sum after it. Deep
    models train more easily with it."""
    positions: list[str] = field(default_factory=lambda: ["sinusoidal"])
    """Position encodings added to the token embeddings: sinusoidal, learned or none."""
    max_positions: Size = 1024
    """Rows of the table of learned positions: maximum number of tokens per sentence. The other
    position encodings have no maximum."""
    scale_embedding: bool = True
    """Multiply token embeddings by the square root of width before adding positions."""
    dropout: Rate = 0.1
    """Dropout rate after the embeddings and after each sublayer."""
    attention_dropout: Rate = 0.0
    """Dropout rate of the attention weights."""

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, kw_only=True)
class AttentionStackConfig(RotaryConfig, ShawConfig, StackConfig):
    """Options of stacks of self-attention, to whose scores position terms are added."""

    attends = True

    positions: list[str] = field(default_factory=lambda: ["sinusoidal"])
    """How the order of tokens enters; several are added: none, learned, sinusoidal, rope, fixed,
    shaw, composite, alibi, t5, and those of plugins. toolkit-train --list positions describes
    them."""
    radius: Size = 16
    """Maximum offset with a separate tap, in tokens; larger ones share the outermost (fixed, shaw,
    composite)."""


class TransformerStack(nn.Module):
    """Embeddings, then layers; pre-norm layers are followed by a final norm."""

    def __init__(
        self,
        c: StackConfig,
        words: nn.Embedding,
        self_attention: list[Callable[[], Attention]],
        *,
        cross: bool,
        causal: bool,
    ) -> None:
        super().__init__()
        table = TableShape(c.width, c.max_positions)
        check_plugins(c, c.attention_shape(causal=causal), table)
        self.embeddings, self.causal = build_embeddings(c, words), causal
        self.layers = LayerStack(
            TransformerLayer(
                attention(),
                FeedForward(c.width, c.feed_forward_width, activation=c.activation),
                CrossAttention(
                    c.width, c.heads, SoftmaxMap(Content(c.head_width), dropout=c.attention_dropout)
                )
                if cross
                else None,
                residual=partial(Residual, c.width, c.dropout, NORM_EPS, pre_norm=c.pre_norm),
                names=GENERATIVE_NAMES,
            )
            for attention in self_attention
        )
        self.norm = LayerNorm(c.width, eps=NORM_EPS) if c.pre_norm else nn.Identity()

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        source: CrossAttentionSource | None = None,
        selected: Int[Tensor, " N"] | None = None,
        padding: Tensor | None = None,
    ) -> Float[Tensor, "C N D"]:
        """States of all tokens; with `selected`, flat indices into B x S, of these: (1, N, D)."""
        offsets = Offsets(None, tokens.shape[1], tokens.device)
        context = SequenceContext(offsets, padding, causal=self.causal, source=source)
        return self.norm(self.layers(self.embeddings(tokens), context, selected))

    def decode_step(
        self,
        tokens: Int[Tensor, "B S"],
        cache: DecodingCache,
        source: CrossAttentionSource | None = None,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        """States of new tokens, which follow those in the cache."""
        assert len(tokens) == cache.rows, "the number of rows equals that of the cache"
        start, end = cache.length, cache.length + tokens.shape[1]
        offsets = Offsets(None, end, tokens.device, query_start=start)
        context = SequenceContext(offsets, causal=tokens.shape[1] > 1, source=source)
        x = self.embeddings(tokens, start=start)
        last = len(self.layers) - 1
        for i, (layer, layer_cache) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x = layer(x, context, selected if i == last else None, layer_cache)
        cache.length = end
        return self.norm(x)


def build_embeddings(c: StackConfig, words: nn.Embedding) -> Embeddings:
    """sqrt(D) word + position; the table of words belongs to the model."""
    positions = find_part(c, "embedding", TableShape(c.width, c.max_positions))
    scale = math.sqrt(c.width) if c.scale_embedding else 1.0
    return Embeddings(
        *(words, None, positions), dropout=c.dropout, width=c.width, scale=scale, shared=("words",)
    )


def build_self_attention(c: AttentionStackConfig, *, causal: bool) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v; decoders see the left side only."""
    scores = build_scores(c, causal=causal)  # first, as always: seeds keep their weights
    return Attention(c.width, build_projections(c), scores)
