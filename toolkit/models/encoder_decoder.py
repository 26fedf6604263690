"""Generative models: an encoder and a decoder, or a decoder only, each a stack of layers.

B rows, several for each of N sources in a beam   S source tokens   T target tokens
D model width   V target vocabulary   M selected target tokens
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Rate, Size
from toolkit.models.interface import ArchConfig, Encoded, EncoderModel, Inputs, Sizes
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
from toolkit.nn.attention.offset_terms import RotaryConfig
from toolkit.nn.decoding_cache import DecodingCache
from toolkit.nn.embeddings import Embeddings
from toolkit.nn.init import init_transformer_weights
from toolkit.nn.layers import GENERATIVE_NAMES, FeedForward, LayerStack, Residual, TransformerLayer
from toolkit.nn.ops.layer_norm import LayerNorm
from toolkit.nn.ops.linear import PackedLinear, aligned_linear, pack_linear, pack_linear_layers

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
        self.embeddings = Embeddings(  # the table of words belongs to the model
            *(words, None, find_part(c, "embedding", table)),
            dropout=c.dropout,
            width=c.width,
            scale=math.sqrt(c.width) if c.scale_embedding else 1.0,
            shared=("words",),
        )
        self.causal = causal
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


def build_self_attention(c: AttentionStackConfig, *, causal: bool) -> Attention:
    """softmax(q k^T / sqrt(K) + terms) v; decoders see the left side only."""
    scores = build_scores(c, causal=causal)  # first, as always: seeds keep their weights
    return Attention(c.width, build_projections(c), scores)


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(StackConfig):
    """Options of models with an encoder and a decoder."""

    share_embeddings: Literal["all", "decoder", "none"] = "decoder"
    """Share the embedding tables of source, target and output (all, requires a joined dictionary),
    of target and output (decoder), or none."""


class GenerativeModel(EncoderModel):
    """A model with a decoder: an encoder-decoder, or a decoder only."""

    supports_selection = True
    norm_epsilon = NORM_EPS
    decoder_only: ClassVar[bool]
    decoder: TransformerStack
    separate_output_embedding: nn.Embedding | None

    def __init__(self, c: StackConfig, sizes: Sizes) -> None:
        super().__init__()
        self.width, self.max_positions = c.width, c.max_length
        self.embedding = nn.Embedding(sizes["tokens"], c.width)
        self.packed_scores: PackedLinear | None = None

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embedding

    @property
    def target_embedding(self) -> nn.Embedding:
        """Embedding of the decoder's input."""
        return self.embedding

    @property
    def output_embedding(self) -> nn.Embedding:
        """Embedding that scores the output."""
        return self.separate_output_embedding or self.target_embedding

    def decode(
        self,
        previous: Int[Tensor, "B T"],
        encoded: Encoded | None = None,
        padding: Bool[Tensor, "N S"] | None = None,
        cache: DecodingCache | None = None,
        selected: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "C M D"]:
        """States from which the token after each position of `previous` is predicted.

        `encoded` and `padding` are those of the source, None for a decoder only. With a cache,
        `previous` holds the new tokens only and the source is read in the first call; `previous`
        may have several adjacent rows for each source. With `selected`, flat indices into B x T,
        only the states of these positions are returned: (1, M, D).
        """
        assert not self.decoder_only or (encoded is None and padding is None), "it has no source"
        source = None if encoded is None else (encoded.states, padding)
        if cache is None:
            return self.decoder(previous, source, selected)
        return self.decoder.decode_step(previous, cache, source, selected)

    def scores(self, states: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Scores of every target token before the softmax, without a bias."""
        if self.packed_scores is not None:
            return self.packed_scores(states)
        return aligned_linear(states, self.output_embedding.weight)

    def cache(self, rows: int) -> DecodingCache:
        """An empty cache for `decode` with this many rows."""
        layers = [it.init_cache() for it in self.decoder.layers if isinstance(it, TransformerLayer)]
        return DecodingCache(rows, layers)

    def pack(self) -> None:
        """Reorder the weights for fast CPU inference, if supported; the model cannot train then."""
        pack_linear_layers(self)
        self.packed_scores = pack_linear(self.output_embedding.weight)


class EncoderDecoder(GenerativeModel):
    """An encoder and a decoder that attends to it (Vaswani et al. 2017, Fig. 1)."""

    decoder_only = False

    def __init__(
        self,
        c: EncoderDecoderConfig,
        sizes: Sizes,
        encoder: list[Callable[[], Attention]],
        decoder: list[Callable[[], Attention]],
    ) -> None:
        super().__init__(c, sizes)
        targets = sizes["targets"] or sizes["tokens"]
        if c.share_embeddings == "all" and targets != sizes["tokens"]:
            raise ToolkitError(
                f"arch.share_embeddings must be decoder or none for separate source and target "
                f"dictionaries, but is 'all' with {sizes['tokens']} and {targets} tokens. "
                f"Preprocess with --joined-dictionary, or choose another."
            )
        words = self.embedding if c.share_embeddings == "all" else nn.Embedding(targets, c.width)
        own = nn.Embedding(targets, c.width) if c.share_embeddings == "none" else None
        self.separate_target_embedding = None if words is self.embedding else words
        self.separate_output_embedding = own
        self.encoder = TransformerStack(c, self.embedding, encoder, cross=False, causal=False)
        self.decoder = TransformerStack(c, words, decoder, cross=True, causal=True)
        init_transformer_weights(self)

    @property
    def target_embedding(self) -> nn.Embedding:
        return self.separate_target_embedding or self.embedding

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        return Encoded(self.encoder(inputs.tokens, None, selected, inputs.padding))

    def alignment(
        self,
        previous: Int[Tensor, "B T"],
        encoded: Encoded,
        padding: Bool[Tensor, "N S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        """Mean weights of the heads of the last cross-attention; every row has a source."""
        last = self.decoder.layers[-1]
        assert isinstance(last, TransformerLayer) and last.cross_attention is not None
        source, cross, weights = (encoded.states, padding), last.cross_attention, list[Tensor]()
        handle = cross.register_forward_pre_hook(
            lambda _, given: weights.append(cross.weights(given[0], source).mean(1))
        )
        try:
            self.decoder(previous, source)
        finally:
            handle.remove()
        return weights[0]


class DecoderOnly(GenerativeModel):
    """A causal language model (Radford et al. 2018); `forward` is its decoder."""

    decoder_only = True

    def __init__(
        self,
        c: StackConfig,
        sizes: Sizes,
        self_attention: list[Callable[[], Attention]],
        *,
        tied: bool,
    ) -> None:
        super().__init__(c, sizes)
        self.separate_output_embedding = None if tied else nn.Embedding(sizes["tokens"], c.width)
        self.decoder = TransformerStack(c, self.embedding, self_attention, cross=False, causal=True)
        init_transformer_weights(self)

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        return Encoded(self.decode(inputs.tokens, selected=selected))
