"""Layers of models that read and write sentences, with the norm before or after each sublayer."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, CrossAttention, Places, Source
from toolkit.nn.decoding_cache import LayerCache, SourceRead
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.ops.add_norm import add_norm
from toolkit.nn.ops.dropout import Dropout

NORM_EPS = 1e-5


class Seen(NamedTuple):
    """What every layer of a stack knows besides its input."""

    places: Places
    source: Source | None = None


class Residual(nn.Module):
    """LN(x + dropout(f(x))) (Vaswani et al. 2017, 5.4), or with `pre_norm` x + dropout(f(LN(x)))
    (Wang et al. 2019).
    """

    def __init__(self, width: int, dropout: float, *, pre_norm: bool) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width, eps=NORM_EPS), Dropout(dropout)
        self.pre_norm = pre_norm

    def entered(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """What the sublayer f gets."""
        return self.norm(x) if self.pre_norm else x

    def forward(
        self, x: Float[Tensor, "B S D"], y: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B S D"]:
        """With y = f(entered(x))."""
        if self.pre_norm:
            return x + self.dropout(y)
        norm = self.norm
        return add_norm(x, y, norm.weight, norm.bias, norm.eps, self.dropout.active)


class SequenceLayer(nn.Module):
    """Places of the same sentence, then those of the source where there is one, then each alone."""

    def __init__(
        self,
        own: Attention,
        cross: CrossAttention | None,
        feed_forward: FeedForward,
        width: int,
        dropout: float,
        *,
        pre_norm: bool,
    ) -> None:
        super().__init__()
        self.own, self.around_own = own, Residual(width, dropout, pre_norm=pre_norm)
        self.cross = cross
        if cross is not None:
            self.around_cross = Residual(width, dropout, pre_norm=pre_norm)
        self.feed_forward = feed_forward
        self.around_feed_forward = Residual(width, dropout, pre_norm=pre_norm)

    def keeps(self) -> LayerCache:
        """What its parts keep while they decode."""
        return LayerCache(self.own.map.keeps(), None if self.cross is None else SourceRead())

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        seen: Seen,
        chosen: Int[Tensor, " N"] | None = None,
        kept: LayerCache | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `chosen`, flat indices into B x S, only their states go on after the attention."""
        x = self.behind_own(x, seen, kept)
        if self.cross is not None:
            query = self.around_cross.entered(x)
            y = self.cross(query, seen.source, None if kept is None else kept.source)
            x = self.around_cross(x, y)
        if chosen is not None:
            x = x.flatten(0, 1).index_select(0, chosen).unsqueeze(0)  # (B, S, D) -> (1, N, D)
        y = self.feed_forward(self.around_feed_forward.entered(x))
        return self.around_feed_forward(x, y)

    def behind_own(
        self, x: Float[Tensor, "B S D"], seen: Seen, kept: LayerCache | None = None
    ) -> Float[Tensor, "B S D"]:
        y = self.own(self.around_own.entered(x), seen.places, None if kept is None else kept.own)
        return self.around_own(x, y)
