"""Generative models: an encoder and a decoder, or a decoder only.

B rows, several for each of N sources in a beam   S source tokens   T target tokens
D model width   V target vocabulary   M selected target tokens
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import Encoded, EncoderModel, Inputs, Sizes
from toolkit.models.transformer_stack import NORM_EPS, StackConfig, TransformerStack
from toolkit.nn.attention import Attention, CrossAttentionSource
from toolkit.nn.decoding_cache import DecodingCache
from toolkit.nn.init import init_transformer_weights
from toolkit.nn.layers import TransformerLayer
from toolkit.nn.ops.aligned_linear import aligned_linear
from toolkit.nn.ops.packed_linear import PackedLinear, pack_linear, pack_linear_layers


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
        source = None if encoded is None else CrossAttentionSource(encoded.states, padding)
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
    """An encoder and a decoder that attends to it (Vaswani et al. 2017, Fig. 1).

    `forward` is the encoder.
    """

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
        self.separate_target_embedding = self.separate_output_embedding = None
        if c.share_embeddings != "all":
            self.separate_target_embedding = nn.Embedding(targets, c.width)
        if c.share_embeddings == "none":
            self.separate_output_embedding = nn.Embedding(targets, c.width)
        words = self.target_embedding
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
        source, weights = CrossAttentionSource(encoded.states, padding), []
        last = self.decoder.layers[-1]
        assert isinstance(last, TransformerLayer) and last.cross_attention is not None
        cross = last.cross_attention

        def record(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            weights.append(cross.weights(inputs[0], source).mean(1))

        handle = cross.register_forward_pre_hook(record)
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
