"""What attention looks at, and the letters that name its axes.

B batch   S query places   T key places   H heads
K width of one head        D model width  R kernel taps, 2 * radius + 1
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.nn.attention.offsets import Offsets


class SequenceContext(NamedTuple):
    """What every layer knows about the places of a batch, whatever stands in them."""

    offsets: Offsets
    padding: Bool[Tensor, "B T"] | None = None
    """True at padding; None means that there is no padding."""
    offset_vectors: Float[Tensor, "R E"] | None = None
    """A vector for each offset in use, shared by the layers, where the encoder has them."""
    causal: bool = False
    """Whether a place sees only itself and those before it, as in decoders."""


class AttentionInputs(NamedTuple):
    """Queries, keys and values by head, the layer input they came from, and who is where."""

    q: Float[Tensor, "B H S K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T K"]
    x: Float[Tensor, "B S D"]
    sequence: SequenceContext
    convolution_values: Float[Tensor, "B H T K"] | None = None
    """Values of the heads that convolve, where they have their own."""
