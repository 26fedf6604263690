"""Layer of encoder-decoder and causal language models, with pre- or post-norm."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, CrossAttention, CrossAttentionSource, SequenceContext
from toolkit.nn.decoding_cache import EncoderKVCache, LayerCache
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import select_tokens
from toolkit.nn.residual import Residual

NORM_EPS = 1e-5


class LayerContext(NamedTuple):
    """The inputs that all layers of a stack share."""

    sequence: SequenceContext
    source: CrossAttentionSource | None = None


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention if there is a source, then the feed-forward network."""

    def __init__(
        self,
        self_attention: Attention,
        cross_attention: CrossAttention | None,
        feed_forward: FeedForward,
        width: int,
        dropout: float,
        *,
        pre_norm: bool,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_attention_residual = Residual(width, dropout, NORM_EPS, pre_norm=pre_norm)
        self.cross_attention = cross_attention
        if cross_attention is not None:
            self.cross_attention_residual = Residual(width, dropout, NORM_EPS, pre_norm=pre_norm)
        self.feed_forward = feed_forward
        self.feed_forward_residual = Residual(width, dropout, NORM_EPS, pre_norm=pre_norm)

    def init_cache(self) -> LayerCache:
        """Empty caches for decoding."""
        cross_attention = None if self.cross_attention is None else EncoderKVCache()
        return LayerCache(self.self_attention.map.init_cache(), cross_attention)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        context: LayerContext,
        selected: Int[Tensor, " N"] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, the feed-forward network skips other tokens."""
        own_cache, source_cache = (None, None) if cache is None else cache
        residual = self.self_attention_residual
        y = self.self_attention(residual.pre_norm_input(x), context.sequence, own_cache)
        x = residual(x, y)
        if self.cross_attention is not None:
            residual = self.cross_attention_residual
            y = self.cross_attention(residual.pre_norm_input(x), context.source, source_cache)
            x = residual(x, y)
        x, residual = select_tokens(x, selected), self.feed_forward_residual
        return residual(x, self.feed_forward(residual.pre_norm_input(x)))
