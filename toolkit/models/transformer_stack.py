"""Stack of embeddings and Transformer layers, for encoders and decoders of generative models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.config.declared import Rate, Size
from toolkit.models.encoder import check_multiple
from toolkit.models.interface import ArchConfig
from toolkit.nn.attention import (
    Attention,
    Content,
    CrossAttention,
    CrossAttentionSource,
    Offsets,
    SequenceContext,
    SoftmaxMap,
)
from toolkit.nn.decoder_layer import NORM_EPS, LayerContext, TransformerLayer
from toolkit.nn.decoding_cache import DecodingCache
from toolkit.nn.embeddings import check_length
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import LayerStack
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm
from toolkit.nn.sinusoidal import sinusoidal_encodings


@dataclass(frozen=True, kw_only=True)
class TransformerStackConfig(ArchConfig):
    """Options shared by encoder-decoder models and language models."""

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
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """Position encodings added to the token embeddings."""
    max_positions: Size = 1024
    """Rows of the table of learned positions: maximum number of tokens per sentence. The other
    position encodings have no maximum."""
    scale_embedding: bool = True
    """Multiply token embeddings by the square root of width before adding positions."""
    dropout: Rate = 0.1
    """Dropout rate after the embeddings and after each sublayer."""
    attention_dropout: Rate = 0.0
    """Dropout rate of the attention weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple("width", self.width, "heads", self.heads)

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None


class TokenEmbedding(nn.Module):
    """dropout(sqrt(D) word + position) (Vaswani et al. 2017, sections 3.4, 3.5).

    The word table is an argument, since it may be shared with the output and with another stack.
    """

    def __init__(self, c: TransformerStackConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(c.width) if c.scale_embedding else 1.0
        self.sinusoidal, self.dropout = c.positions == "sinusoidal", Dropout(c.dropout)
        learned = c.positions == "learned"
        self.positions = nn.Embedding(c.max_positions, c.width) if learned else None

    def forward(
        self, tokens: Int[Tensor, "B S"], token_embedding: nn.Embedding, start: int = 0
    ) -> Float[Tensor, "B S D"]:
        """Embeddings of tokens at the positions from `start` on."""
        x, end = self.scale * token_embedding(tokens), start + tokens.shape[1]
        if self.positions is not None:
            check_length(end, self.positions.num_embeddings)
            x = x + self.positions.weight[start:end]
        elif self.sinusoidal:
            x = x + sinusoidal_encodings(start, end, x.shape[-1], x.device).to(x.dtype)
        return self.dropout(x)


class TransformerStack(nn.Module):
    """Embeddings, then layers; pre-norm layers are followed by a final norm."""

    def __init__(
        self,
        c: TransformerStackConfig,
        self_attention: list[Callable[[], Attention]],
        *,
        cross: bool,
        causal: bool,
    ) -> None:
        super().__init__()
        self.embeddings, self.causal = TokenEmbedding(c), causal
        self.layers = LayerStack(
            TransformerLayer(
                attention(),
                build_cross_attention(c) if cross else None,
                FeedForward(c.width, c.feed_forward_width, activation=c.activation),
                c.width,
                c.dropout,
                pre_norm=c.pre_norm,
            )
            for attention in self_attention
        )
        self.norm = LayerNorm(c.width, eps=NORM_EPS) if c.pre_norm else nn.Identity()

    def cache(self, rows: int) -> DecodingCache:
        """An empty cache for this many rows."""
        layers = [
            layer.init_cache() for layer in self.layers if isinstance(layer, TransformerLayer)
        ]
        return DecodingCache(rows, layers)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        token_embedding: nn.Embedding,
        source: CrossAttentionSource | None = None,
        selected: Int[Tensor, " N"] | None = None,
        padding: Tensor | None = None,
    ) -> Float[Tensor, "C N D"]:
        """States of all tokens; with `selected`, flat indices into B x S, of these: (1, N, D)."""
        offsets = Offsets(None, tokens.shape[1], tokens.device)
        context = LayerContext(SequenceContext(offsets, padding, causal=self.causal), source)
        return self.norm(self.layers(self.embeddings(tokens, token_embedding), context, selected))

    def decode_step(
        self,
        tokens: Int[Tensor, "B S"],
        token_embedding: nn.Embedding,
        cache: DecodingCache,
        source: CrossAttentionSource | None = None,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        """States of new tokens, which follow those in the cache."""
        assert len(tokens) == cache.rows, "the number of rows equals that of the cache"
        start, end = cache.length, cache.length + tokens.shape[1]
        offsets = Offsets(None, end, tokens.device, query_start=start)
        context = LayerContext(SequenceContext(offsets, causal=tokens.shape[1] > 1), source)
        x = self.embeddings(tokens, token_embedding, start)
        last = len(self.layers) - 1
        for i, (layer, layer_cache) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x = layer(x, context, selected if i == last else None, layer_cache)
        cache.length = end
        return self.norm(x)


def build_cross_attention(c: TransformerStackConfig) -> CrossAttention:
    """Cross-attention with the width, heads and dropout of the stack."""
    attention_map = SoftmaxMap(Content(c.head_width), dropout=c.attention_dropout)
    return CrossAttention(c.width, c.heads, attention_map)
