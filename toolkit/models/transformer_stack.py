"""A stack of layers over a sentence: what encoders and decoders of sequence models share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.models.encoder import check_at_least_one, check_multiple, check_rate
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
from toolkit.nn.feed_forward import ACTIVATIONS, FeedForward
from toolkit.nn.layer_stack import LayerStack
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.sinusoidal import sinusoidal_encodings

POSITIONS = ("sinusoidal", "learned", "none")


@dataclass(frozen=True, kw_only=True)
class TransformerStackConfig(ArchConfig):
    """The shape shared by all models that write sentences."""

    width: int = 512
    """Width of the hidden states; a multiple of heads."""
    heads: int = 8
    """Attention heads."""
    feed_forward_width: int = 2048
    """Inner width of the feed-forward networks."""
    activation: str = "relu"
    """Function inside the feed-forward networks: relu or gelu."""
    pre_norm: bool = False
    """Norm the input of each sublayer, and the last states, instead of the sum behind it. Deep
    models learn more easily so."""
    positions: str = "sinusoidal"
    """How words know their places: sinusoidal (waves added to them), learned (a table added to
    them), or none."""
    max_positions: int = 1024
    """Rows of the table of learned positions: the longest sentence in tokens. Without a table
    sentences may be of any length."""
    scale_embedding: bool = True
    """Multiply the words' vectors by the square root of width before positions are added."""
    dropout: float = 0.1
    """Share of the hidden units zeroed after the embeddings and after each sublayer, 0 to 1."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed, 0 to 1."""

    def __post_init__(self) -> None:
        for name in ("width", "heads", "feed_forward_width", "max_positions"):
            check_at_least_one(name, getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            check_rate(name, getattr(self, name))
        check_multiple("width", self.width, "heads", self.heads)
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        check_choice("positions", self.positions, POSITIONS)

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ToolkitError(f"arch.{name} must be one of {', '.join(known)}, but is {value!r}.")


class TokenEmbedding(nn.Module):
    """dropout(sqrt(D) word + position) (Vaswani et al. 2017, sections 3.4, 3.5).

    The table of words is given with every call, for it may be that of scores and of another stack.
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
        """Tokens at places from `first` on."""
        x, end = self.scale * token_embedding(tokens), start + tokens.shape[1]
        if self.positions is not None:
            check_length(end, self.positions.num_embeddings)
            x = x + self.positions.weight[start:end]
        elif self.sinusoidal:
            x = x + sinusoidal_encodings(start, end, x.shape[-1], x.device).to(x.dtype)
        return self.dropout(x)


class TransformerStack(nn.Module):
    """Embeddings, then layers; behind layers with the norm first, one more norm."""

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
        self.norm = nn.LayerNorm(c.width, eps=NORM_EPS) if c.pre_norm else nn.Identity()

    def cache(self, rows: int) -> DecodingCache:
        """An empty cache for so many rows."""
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
        """States of all places; with `chosen`, flat indices into B x S, of those alone."""
        offsets = Offsets(None, tokens.shape[1], tokens.device)
        seen = LayerContext(SequenceContext(offsets, padding, causal=self.causal), source)
        return self.norm(self.layers(self.embeddings(tokens, token_embedding), seen, selected))

    def decode_step(
        self,
        tokens: Int[Tensor, "B S"],
        token_embedding: nn.Embedding,
        cache: DecodingCache,
        source: CrossAttentionSource | None = None,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        """The same for new tokens alone, behind those that the cache has seen."""
        assert len(tokens) == cache.rows, "a cache goes on with the rows that it has"
        first, end = cache.length, cache.length + tokens.shape[1]
        offsets = Offsets(None, end, tokens.device, query_start=first)
        seen = LayerContext(SequenceContext(offsets, causal=tokens.shape[1] > 1), source)
        x = self.embeddings(tokens, token_embedding, first)
        last = len(self.layers) - 1
        for i, (layer, kept) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x = layer(x, seen, selected if i == last else None, kept)
        cache.length = end
        return self.norm(x)


def build_cross_attention(c: TransformerStackConfig) -> CrossAttention:
    map_ = SoftmaxMap(Content(c.head_width), dropout=c.attention_dropout)
    return CrossAttention(c.width, c.heads, map_)
