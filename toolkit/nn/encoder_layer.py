"""Encoder layer with post- or pre-norm residuals."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, SequenceContext
from toolkit.nn.feed_forward import Activation, FeedForward
from toolkit.nn.layer_stack import select_tokens
from toolkit.nn.norms import NormName
from toolkit.nn.residual import Residual


class EncoderLayer(nn.Module):
    """x <- LN(x + dropout(attention(x))); x <- LN(x + dropout(feed_forward(x))).

    With `pre_norm` x <- x + dropout(attention(LN(x))); x <- x + dropout(feed_forward(LN(x))). The
    norms keep their names, after_attention.norm and after_feed_forward.norm.
    """

    def __init__(
        self,
        attention: Attention,
        width: int,
        inner: int,
        dropout: float,
        groups: int = 1,
        *,
        activation: Activation = "gelu",
        pre_norm: bool = False,
        norm: NormName = "layer",
    ) -> None:
        super().__init__()
        self.attention = attention
        self.after_attention = Residual(width, dropout, pre_norm=pre_norm, norm=norm)
        self.feed_forward = FeedForward(width, inner, groups, activation)
        self.after_feed_forward = Residual(width, dropout, pre_norm=pre_norm, norm=norm)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, the feed-forward network skips other tokens."""
        residual = self.after_attention
        x = residual(x, self.attention(residual.pre_norm_input(x), sequence))
        x, residual = select_tokens(x, selected), self.after_feed_forward
        return residual(x, self.feed_forward(residual.pre_norm_input(x)))
