"""Inputs of attention, and the letters of its axes.

B batch   S queries   T keys   H heads
K width of one head        D model width  R kernel taps, 2 * radius + 1
P parts of a projection: queries, keys, values, and others
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from toolkit.nn.attention.offsets import Offsets
from toolkit.nn.ops.relative_inputs import SentenceRows


class CrossAttentionSource(NamedTuple):
    """The encoded source; several adjacent rows of the decoder may share one."""

    states: Float[Tensor, "N T D"]
    padding: Bool[Tensor, "N T"] | None = None


class SequenceContext(NamedTuple):
    """Offsets, padding and direction of attention in a batch, the same for all layers."""

    offsets: Offsets
    padding: Bool[Tensor, "B T"] | None = None
    """True at padding; None means no padding."""
    offset_vectors: Float[Tensor, "R E"] | None = None
    """A vector per offset in use, for encoders that share them among layers."""
    offset_rows: Int[Tensor, " O"] | None = None
    """Row of `offset_vectors` of each offset in use, if offsets share rows."""
    causal: bool = False
    """Whether a position attends to itself and previous positions only, as in decoders."""
    rows: SentenceRows | None = None
    """Sentences among the B x S tokens, for attention in one kernel; None: without it. If they are
    packed, B is 1 and there is no padding."""
    source: CrossAttentionSource | None = None
    """What cross-attention reads."""
    values: dict[str, Tensor] | None = None
    """Values by head that layers add to theirs; the first layer may write its own here."""


class AttentionInputs(NamedTuple):
    """Queries, keys and values by head, the layer input, and the context of the sequence.

    q and k are those of the product q . k; terms and kernels read `term_queries` and `term_keys`.
    """

    q: Float[Tensor, "B H S K"]
    k: Float[Tensor, "B H T K"]
    v: Float[Tensor, "B H T K"]
    x: Float[Tensor, "B S D"]
    sequence: SequenceContext
    convolution_values: Float[Tensor, "B H T K"] | None = None
    """Separate values of the convolutional heads, if any."""
    qkv: Float[Tensor, "B S P H K"] | None = None
    """The projection that q, k and v are views of, if the context has rows."""
    unchanged: tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H T K"]] | None = None
    """Queries and keys before the changes for their product, such as a rotation."""
    offset_qk: tuple[Float[Tensor, "H O K"] | None, Float[Tensor, "H O K"] | None] | None = None
    """Queries and keys of the offset vectors, for each offset in use; None where no term reads
    them."""

    @property
    def term_queries(self) -> Float[Tensor, "B H S K"]:
        """Queries that terms and kernels read."""
        return self.q if self.unchanged is None else self.unchanged[0]

    @property
    def term_keys(self) -> Float[Tensor, "B H T K"]:
        """Keys that terms and kernels read."""
        return self.k if self.unchanged is None else self.unchanged[1]

    def with_content(
        self, q: Float[Tensor, "B H S K"], k: Float[Tensor, "B H T K"]
    ) -> AttentionInputs:
        """Other queries and keys of the product q . k; terms read those from before."""
        return self.replace(q=q, k=k, unchanged=self.unchanged or (self.q, self.k))

    def replace(self, **fields: Any) -> AttentionInputs:
        """A copy with other fields; `_replace` gives an empty one where torch 2.11 compiles it."""
        return AttentionInputs(**{**self._asdict(), **fields})
