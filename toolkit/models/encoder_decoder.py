"""Models that write: an encoder and a decoder that reads it, or a decoder alone.

B rows   N sources, B = N x rows that go on from one   S places of the source   T places written
D model width   V target vocabulary   M places whose states are wanted
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import Encoded, Inputs, Sizes
from toolkit.models.transformer_stack import TransformerStack, TransformerStackConfig, check_choice
from toolkit.nn.attention import Attention, CrossAttentionSource
from toolkit.nn.decoder_layer import NORM_EPS, TransformerLayer
from toolkit.nn.decoding_cache import DecodingCache
from toolkit.nn.init import init_transformer_weights
from toolkit.nn.ops.packed_linear import PackedLinear, pack_linear, pack_linear_layers

SHARED = ("all", "decoder", "none")


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(TransformerStackConfig):
    share_embeddings: str = "decoder"
    """Tables that are one: all (of the source, of the target and of the scores, for a joined
    dictionary), decoder (of the target and of the scores), or none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("share_embeddings", self.share_embeddings, SHARED)


class GenerativeModel(nn.Module):
    """What models that write have in common: a decoder, and scores by a table of symbols."""

    takes_positions = False
    norm_epsilon = NORM_EPS
    decoder: TransformerStack
    token_embedding: nn.Embedding
    separate_output_embedding: nn.Embedding | None

    def __init__(self) -> None:
        super().__init__()
        self.packed_scores: PackedLinear | None = None

    @property
    def target_embedding(self) -> nn.Embedding:
        """The table of what the decoder reads."""
        return self.token_embedding

    @property
    def output_embedding(self) -> nn.Embedding:
        """The table of what is written."""
        return (
            self.target_embedding
            if self.separate_output_embedding is None
            else self.separate_output_embedding
        )

    def scores(self, states: Float[Tensor, "M D"]) -> Float[Tensor, "M V"]:
        """Of every target symbol, before the softmax; without a bias."""
        if self.packed_scores is not None:
            return self.packed_scores(states)
        return F.linear(states, self.output_embedding.weight)

    def cache(self, rows: int) -> DecodingCache:
        """What `decode` keeps of so many rows from call to call; empty at first."""
        return self.decoder.cache(rows)

    def pack(self) -> None:
        """Lay its weights out for writing, where the processor gains by it; it learns no more."""
        pack_linear_layers(self)
        self.packed_scores = pack_linear(self.output_embedding.weight)


class EncoderDecoder(GenerativeModel):
    """Reads a sentence and writes another (Vaswani et al. 2017, figure 1)."""

    decoder_only = False

    def __init__(
        self,
        c: EncoderDecoderConfig,
        sizes: Sizes,
        encoder: list[Callable[[], Attention]],
        decoder: list[Callable[[], Attention]],
    ) -> None:
        super().__init__()
        targets = sizes.targets or sizes.tokens
        if c.share_embeddings == "all" and targets != sizes.tokens:
            raise ToolkitError(
                f"arch.share_embeddings must be decoder or none where source and target have "
                f"dictionaries of their own, but is 'all' with {sizes.tokens} and {targets} "
                f"symbols. Preprocess with --joined-dictionary, or choose another."
            )
        self.width = c.width
        self.max_positions = c.max_length
        own, score = c.share_embeddings != "all", c.share_embeddings == "none"
        self.token_embedding = nn.Embedding(sizes.tokens, c.width)
        self.separate_target_embedding = nn.Embedding(targets, c.width) if own else None
        self.separate_output_embedding = nn.Embedding(targets, c.width) if score else None
        self.encoder = TransformerStack(c, encoder, cross=False, causal=False)
        self.decoder = TransformerStack(c, decoder, cross=True, causal=True)
        init_transformer_weights(self)

    @property
    def target_embedding(self) -> nn.Embedding:
        return (
            self.token_embedding
            if self.separate_target_embedding is None
            else self.separate_target_embedding
        )

    def encode(self, inputs: Inputs) -> Encoded:
        tokens, padding = inputs.tokens, inputs.padding
        return Encoded(self.encoder(tokens, self.token_embedding, padding=padding))

    def decode(
        self,
        previous: Int[Tensor, "B T"],
        encoded: Encoded | None,
        padding: Bool[Tensor, "N S"] | None = None,
        cache: DecodingCache | None = None,
        selected: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "C M D"]:
        """States from which the symbol behind each place of `previous` is told.

        `padding` is the source's. With a cache, `previous` holds the new symbols alone, and the
        source is read at the first call only; its rows may be fewer than those of `previous`, as
        many of which, side by side, go on from each. With `chosen`, flat indices into B x T, only
        the states of these places are made: (1, M, D).
        """
        source = None if encoded is None else CrossAttentionSource(encoded.states, padding)
        if cache is None:
            return self.decoder(previous, self.target_embedding, source, selected)
        return self.decoder.decode_step(previous, self.target_embedding, cache, source, selected)

    def alignment(
        self,
        previous: Int[Tensor, "B T"],
        encoded: Encoded,
        padding: Bool[Tensor, "N S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        """How much each place written looks at each of the source, in the last layer, the mean of
        its heads; a source for every row.
        """
        source, found = CrossAttentionSource(encoded.states, padding), []
        last = self.decoder.layers[-1]
        assert isinstance(last, TransformerLayer) and last.cross_attention is not None, (
            "the decoder reads"
        )
        cross = last.cross_attention

        def look(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            found.append(cross.weights(inputs[0], source).mean(1))

        handle = cross.register_forward_pre_hook(look)
        try:
            self.decoder(previous, self.target_embedding, source)
        finally:
            handle.remove()
        return found[0]

    def forward(
        self,
        inputs: Inputs,
        previous: Int[Tensor, "B T"],
        selected: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "C M D"]:
        """What `decode` makes of the source, encoded."""
        return self.decode(previous, self.encode(inputs), inputs.padding, selected=selected)


class DecoderOnly(GenerativeModel):
    """Writes on from what stands there: a language model (Radford et al. 2018)."""

    decoder_only = True

    def __init__(
        self,
        c: TransformerStackConfig,
        sizes: Sizes,
        self_attention: list[Callable[[], Attention]],
        *,
        tied: bool,
    ) -> None:
        super().__init__()
        self.width = c.width
        self.max_positions = c.max_length
        self.token_embedding = nn.Embedding(sizes.tokens, c.width)
        self.separate_output_embedding = None if tied else nn.Embedding(sizes.tokens, c.width)
        self.decoder = TransformerStack(c, self_attention, cross=False, causal=True)
        init_transformer_weights(self)

    def decode(
        self,
        previous: Int[Tensor, "B T"],
        encoded: None = None,
        padding: None = None,
        cache: DecodingCache | None = None,
        selected: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "C M D"]:
        """As EncoderDecoder.decode, without a source."""
        if cache is None:
            return self.decoder(previous, self.token_embedding, selected=selected)
        return self.decoder.decode_step(previous, self.token_embedding, cache, selected=selected)

    def forward(
        self, previous: Int[Tensor, "B T"], selected: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "C M D"]:
        return self.decode(previous, selected=selected)
