"""A layer of two streams that meet in their attention maps alone (TACO, figure 2)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.attention import SequenceContext, StreamProjections, TwoStreamMaps
from toolkit.nn.encoder_layer import AddNorm
from toolkit.nn.feed_forward import FeedForward


class StreamStates(NamedTuple):
    """Vectors of the words and of their positions, and the scores that the layer above sees."""

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
        x = self.after_attention(x, self.output(context))
        if selected is not None:
            x = x.flatten(0, 1).index_select(0, selected).unsqueeze(0)  # (B, S, D) -> (1, N, D)
        return self.after_feed_forward(x, self.feed_forward(x))


class TwoStreamLayer(nn.Module):
    """Both streams give queries and keys to the joint maps; each applies its own to its values."""

    def __init__(
        self, words: StreamLayer, positions: StreamLayer, maps: TwoStreamMaps, passes_scores: bool
    ) -> None:
        super().__init__()
        self.words, self.positions, self.maps = words, positions, maps
        self.passes_scores = passes_scores
        """Whether the layer above sees this one's scores."""

    def forward(
        self, x: StreamStates, sequence: SequenceContext, selected: Int[Tensor, " N"] | None = None
    ) -> StreamStates:
        """With `chosen`, flat indices into B x S, only their states leave the layer."""
        of_words = self.words.project(x.words, sequence)
        of_positions = self.positions.project(x.positions, sequence)
        scores = self.maps(of_words, of_positions, x.scores)
        weights = self.maps.weights(scores, sequence.padding)
        heads = of_words.q.shape[1], of_positions.q.shape[1]
        by_words, by_positions = weights.split(heads, dim=1)  # slices' gradients would be added up
        return StreamStates(
            self.words(x.words, of_words.v, by_words, selected),
            self.positions(x.positions, of_positions.v, by_positions, selected),
            scores if self.passes_scores else None,
        )
