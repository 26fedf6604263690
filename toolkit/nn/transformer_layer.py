"""The layer of encoders and decoders: attention and a feed-forward network, pre- or post-norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, CrossAttention, SequenceContext
from toolkit.nn.decoding_cache import EncoderKVCache, LayerCache
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import select_tokens
from toolkit.nn.residual import Residual


class LayerNames(NamedTuple):
    """Names of a layer's parts, as checkpoints have them."""

    attention: str
    residual: str
    """Of the residual connection of {}, the name of a sublayer."""


ENCODER_NAMES = LayerNames("attention", "after_{}")
GENERATIVE_NAMES = LayerNames("self_attention", "{}_residual")


class TransformerLayer(nn.Module):
    """x <- LN(x + dropout(f(x))) for f = attention, cross-attention if any, feed-forward network.

    With residuals of `pre_norm` x <- x + dropout(f(LN(x))). The norms keep their names, such as
    after_attention.norm.
    """

    attention: Attention
    after_attention: Residual
    cross_attention: CrossAttention | None

    def __init__(
        self,
        attention: Attention,
        feed_forward: FeedForward,
        cross: CrossAttention | None = None,
        *,
        residual: Callable[[], Residual],
        names: LayerNames = ENCODER_NAMES,
    ) -> None:
        super().__init__()
        self.names = names
        parts = {names.attention: attention, "cross_attention": cross, "feed_forward": feed_forward}
        for name, part in parts.items():
            self.add_module(name, part)
            if part is not None:
                self.add_module(names.residual.format(name), residual())

    def init_cache(self) -> LayerCache:
        """Empty caches for decoding."""
        attention: Attention = getattr(self, self.names.attention)
        cross = None if self.cross_attention is None else EncoderKVCache()
        return LayerCache(attention.map.init_cache(), cross)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        selected: Int[Tensor, " N"] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, the feed-forward network skips other tokens."""
        own_cache, source_cache = (None, None) if cache is None else cache
        x = self.add(self.names.attention, x, sequence, own_cache)
        if self.cross_attention is not None:
            x = self.add("cross_attention", x, sequence.source, source_cache)
        return self.add("feed_forward", select_tokens(x, selected))

    def add(self, name: str, x: Float[Tensor, "B S D"], *context: object) -> Float[Tensor, "B S D"]:
        """x with the output of a sublayer added to it."""
        residual: Residual = getattr(self, self.names.residual.format(name))
        return residual(x, getattr(self, name)(residual.pre_norm_input(x), *context))
