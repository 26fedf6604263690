"""A layer of two streams that interact only in their attention maps (TACO, Fig. 2)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import SequenceContext, StreamProjections, TwoStreamMaps
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import select_tokens
from toolkit.nn.ops.batched_products import average_by_head
from toolkit.nn.residual import Residual


class StreamStates(NamedTuple):
    """States of the words and of the positions, and attention scores for the next layer."""

    words: Float[Tensor, "B S D"]
    positions: Float[Tensor, "B S P"]
    scores: Float[Tensor, "B H S T"] | None = None


class StreamLayer(nn.Module):
    """The sublayers of one stream: x <- LN(x + W_O (map V)); x <- LN(x + feed_forward(x))."""

    def __init__(self, width: int, heads: int, head_width: int, dropout: float) -> None:
        super().__init__()
        self.project = StreamProjections(width, heads, head_width)
        self.output, self.after_attention = nn.Linear(width, width), Residual(width, dropout)
        self.feed_forward = FeedForward(width, 4 * width)
        self.after_feed_forward = Residual(width, dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        v: Float[Tensor, "B H T V"],
        weights: Float[Tensor, "B H S T"],
        selected: Int[Tensor, " N"] | None,
    ) -> Float[Tensor, "C N D"]:
        context = average_values(weights, v)
        x = select_tokens(self.after_attention(x, self.output(context)), selected)
        return self.after_feed_forward(x, self.feed_forward(x))


class TwoStreamLayer(nn.Module):
    """The maps are computed from both streams; each stream applies its heads to its values."""

    def __init__(
        self, words: StreamLayer, positions: StreamLayer, maps: TwoStreamMaps, passes_scores: bool
    ) -> None:
        super().__init__()
        self.words, self.positions, self.maps = words, positions, maps
        self.passes_scores = passes_scores
        """Whether the next layer receives the scores."""

    def forward(
        self, x: StreamStates, sequence: SequenceContext, selected: Int[Tensor, " N"] | None = None
    ) -> StreamStates:
        """With `selected`, flat indices into B x S, only states of these tokens are returned."""
        words = self.words.project(x.words, sequence)
        positions = self.positions.project(x.positions, sequence)
        maps = self.maps(words, positions, x.scores)
        return StreamStates(
            self.words(x.words, words.v, maps.words, selected),
            self.positions(x.positions, positions.v, maps.positions, selected),
            maps.scores if self.passes_scores else None,
        )


def average_values(
    weights: Float[Tensor, "B H S T"], v: Float[Tensor, "B H T V"]
) -> Float[Tensor, "B S HV"]:
    """sum_j w_ij v_j, all heads side by side."""
    if weights.is_cuda:
        return average_by_head(weights, v)
    return (weights @ v).transpose(1, 2).flatten(2)  # (B, H, S, V) -> (B, S, HV)
