"""Inputs of attention, and the letters of its axes.

B batch   S queries   T keys   H heads
K width of one head        D model width  R kernel taps, 2 * radius + 1
P parts of a projection: queries, keys, values, and others
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.nn.attention.offsets import Offsets
from toolkit.nn.ops.relative_attention import SentenceRows


class SequenceContext(NamedTuple):
    """Offsets, padding and direction of attention in a batch, the same for all layers."""

    offsets: Offsets
    padding: Bool[Tensor, "B T"] | None = None
    """True at padding; None means no padding."""
    offset_vectors: Float[Tensor, "R E"] | None = None
    """A vector per offset in use, for encoders that share them among layers."""
    causal: bool = False
    """Whether a position attends to itself and previous positions only, as in decoders."""
    rows: SentenceRows | None = None
    """Sentences among the B x S tokens, for attention in one kernel; None: without it. If they are
    packed, B is 1 and there is no padding."""


class AttentionInputs(NamedTuple):
    """Queries, keys and values by head, the layer input, and the context of the sequence."""

    q: Float[Tensor, "B H S K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T K"]
    x: Float[Tensor, "B S D"]
    sequence: SequenceContext
    convolution_values: Float[Tensor, "B H T K"] | None = None
    """Separate values of the convolutional heads, if any."""
    qkv: Float[Tensor, "B S P H K"] | None = None
    """The projection that q, k and v are views of, if the context has rows."""
