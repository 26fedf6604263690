"""Encoder layer with post-norm residuals."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import Attention, SequenceContext
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import select_tokens
from toolkit.nn.ops.add_norm import add_norm
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm

NORM_EPS = 1e-12  # of the BERT family


class AddNorm(nn.Module):
    """LN(x + dropout(y)), the post-norm residual (Vaswani et al. 2017, section 5.4)."""

    def __init__(self, width: int, dropout: float, eps: float = NORM_EPS) -> None:
        super().__init__()
        self.norm, self.dropout = LayerNorm(width, eps=eps), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B S D"], y: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B S D"]:
        norm = self.norm
        return add_norm(x, y, norm.weight, norm.bias, norm.eps, self.dropout.effective_rate)


class EncoderLayer(nn.Module):
    """x <- LN(x + dropout(attention(x))); x <- LN(x + dropout(feed_forward(x)))."""

    def __init__(
        self, attention: Attention, width: int, inner: int, dropout: float, groups: int = 1
    ) -> None:
        super().__init__()
        self.attention, self.after_attention = attention, AddNorm(width, dropout)
        self.feed_forward = FeedForward(width, inner, groups)
        self.after_feed_forward = AddNorm(width, dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, the feed-forward network skips other tokens."""
        x = select_tokens(self.after_attention(x, self.attention(x, sequence)), selected)
        return self.after_feed_forward(x, self.feed_forward(x))
