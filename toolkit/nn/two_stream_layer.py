"""A layer of two streams that interact only in their attention maps (TACO, figure 2)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import SequenceContext, StreamProjections, TwoStreamMaps
from toolkit.nn.encoder_layer import AddNorm
from toolkit.nn.feed_forward import FeedForward
from toolkit.nn.layer_stack import select_tokens


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
        self.output, self.after_attention = nn.Linear(width, width), AddNorm(width, dropout)
        self.feed_forward = FeedForward(width, 4 * width)
        self.after_feed_forward = AddNorm(width, dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        v: Float[Tensor, "B H T V"],
        weights: Float[Tensor, "B H S T"],
        selected: Int[Tensor, " N"] | None,
    ) -> Float[Tensor, "C N D"]:
        context = (weights @ v).transpose(1, 2).flatten(2)  # (B, H, S, V) -> (B, S, HV)
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
        scores = self.maps(words, positions, x.scores)
        weights = self.maps.weights(scores, sequence.padding)
        # Not slices: their gradients would be padded with zeros and added.
        word_weights, position_weights = weights.split((words.q.shape[1], positions.q.shape[1]), 1)
        return StreamStates(
            self.words(x.words, words.v, word_weights, selected),
            self.positions(x.positions, positions.v, position_weights, selected),
            scores if self.passes_scores else None,
        )
