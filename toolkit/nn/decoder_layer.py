"""Layers of models that read and write sentences, with the norm before or after each sublayer."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, CrossAttention, CrossAttentionSource, SequenceContext
from toolkit.nn.decoding_cache import EncoderKVCache, LayerCache
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.ops.add_norm import add_norm
from toolkit.nn.ops.dropout import Dropout

NORM_EPS = 1e-5


class LayerContext(NamedTuple):
    """What every layer of a stack knows besides its input."""

    sequence: SequenceContext
    source: CrossAttentionSource | None = None


class Residual(nn.Module):
    """LN(x + dropout(f(x))) (Vaswani et al. 2017, 5.4), or with `pre_norm` x + dropout(f(LN(x)))
    (Wang et al. 2019).
    """

    def __init__(self, width: int, dropout: float, *, pre_norm: bool) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width, eps=NORM_EPS), Dropout(dropout)
        self.pre_norm = pre_norm

    def pre_norm_input(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """What the sublayer f gets."""
        return self.norm(x) if self.pre_norm else x

    def forward(
        self, x: Float[Tensor, "B S D"], y: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B S D"]:
        """With y = f(entered(x))."""
        if self.pre_norm:
            return x + self.dropout(y)
        norm = self.norm
        return add_norm(x, y, norm.weight, norm.bias, norm.eps, self.dropout.effective_rate)


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
        self.self_attention, self.self_attention_residual = (
            self_attention,
            Residual(width, dropout, pre_norm=pre_norm),
        )
        self.cross_attention = cross_attention
        if cross_attention is not None:
            self.cross_attention_residual = Residual(width, dropout, pre_norm=pre_norm)
        self.feed_forward = feed_forward
        self.feed_forward_residual = Residual(width, dropout, pre_norm=pre_norm)

    def init_cache(self) -> LayerCache:
        """What its parts keep while they decode."""
        return LayerCache(
            self.self_attention.map.init_cache(),
            None if self.cross_attention is None else EncoderKVCache(),
        )

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        context: LayerContext,
        selected: Int[Tensor, " N"] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, only their states are computed after the
        attention."""
        x = self.apply_self_attention(x, context, cache)
        if self.cross_attention is not None:
            query = self.cross_attention_residual.pre_norm_input(x)
            y = self.cross_attention(
                query, context.source, None if cache is None else cache.cross_attention
            )
            x = self.cross_attention_residual(x, y)
        if selected is not None:
            x = x.flatten(0, 1).index_select(0, selected).unsqueeze(0)  # (B, S, D) -> (1, N, D)
        y = self.feed_forward(self.feed_forward_residual.pre_norm_input(x))
        return self.feed_forward_residual(x, y)

    def apply_self_attention(
        self, x: Float[Tensor, "B S D"], context: LayerContext, cache: LayerCache | None = None
    ) -> Float[Tensor, "B S D"]:
        y = self.self_attention(
            self.self_attention_residual.pre_norm_input(x),
            context.sequence,
            None if cache is None else cache.self_attention,
        )
        return self.self_attention_residual(x, y)
