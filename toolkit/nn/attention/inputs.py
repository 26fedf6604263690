"""Inputs of attention, the offsets j - i between its positions, and the letters of its axes.

Offsets are computed from position ids, never from indices.

B batch   S queries   T keys   H heads
K width of one head        D model width  R kernel taps, 2 * radius + 1
P parts of a projection: queries, keys, values, and others
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cached_property, partial, wraps
from typing import Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.nn.ops.attention import mask_outside
from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.kernel_inputs import SentenceRows
from toolkit.nn.ops.offsets.taps import (
    LinearMap,
    apply_linear,
    gather_scores,
    read_diagonals,
    skew,
    sum_diagonals,
    sum_scores,
)
from toolkit.nn.ops.offsets.token_order import MovedTokens, find_moved_tokens, scatter_by_position

Rotations = tuple[Float[Tensor, "#B 1 S K2"], Float[Tensor, "#B 1 S K2"]]
"""Cosines and sines of the angles of positions, one for each pair of columns."""


def compute_rotations(
    positions: Int[Tensor, "B S"], width: int, base: float, dtype: torch.dtype
) -> Rotations:
    """cos and sin of p base^(-2c / K), c = 0 .. K / 2 - 1 (Su et al. 2021, eq. 15)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, device=positions.device, dtype=precise)
    frequencies = torch.exp(-math.log(base) / width * channels)
    angles = positions[:, None, :, None].to(precise) * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Float[Tensor, "B H S K"], rotations: Rotations) -> Float[Tensor, "B H S K"]:
    """(a cos - b sin, b cos + a sin) for the halves a and b of the columns."""
    cosines, sines = rotations
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


POSITIONS_MULTIPLE = 8
"""A divisor of the number of positions on a GPU, whose products want rows of whole 16 bytes."""
UNKNOWN_LIMIT = 2**31
"""A bound above all offsets, if the largest is unknown."""


Method = TypeVar("Method", bound=Callable[..., Any])


def kept(method: Method) -> Method:
    """A method of `Offsets` that computes each result once per batch."""

    @wraps(method)
    def call(self: Offsets, *arguments: Any) -> Any:
        if torch.compiler.is_exporting():  # radii may be symbols, which have no hash
            return method(self, *arguments)
        if (key := (method, *arguments)) not in self.results:
            self.results[key] = method(self, *arguments)
        return self.results[key]

    return cast(Method, call)


class Offsets:
    """Offsets between the positions of a batch: one table for all sentences, or one for each,
    computed once and shared by all layers.
    """

    def __init__(
        self,
        positions: Int[Tensor, "B S"] | None,
        length: int,
        device: torch.device,
        limit: int = UNKNOWN_LIMIT,
        query_start: int = 0,
    ) -> None:
        """`limit` is above all ids, which are at least -1; it saves a synchronization with a GPU.

        Queries start at `query_start`; keys of previous positions come from a cache.
        """
        self.positions, self.length, self.device = positions, length, device
        self.query_start = query_start
        self._limit = limit
        self.results: dict[Hashable, Any] = {}

    @property
    def shared(self) -> bool:
        """Whether all sentences have the same offsets."""
        return self.positions is None

    @property
    def eager_on_cpu(self) -> bool:
        """Whether operations run at once, on a CPU."""
        return self.device.type == "cpu" and not torch.compiler.is_compiling()

    @property
    def multiplies_in_blocks(self) -> bool:
        """Whether products by offset run in blocks: on a CPU, with tokens in order."""
        wanted = fast("offset_products") and fast("offset_attention") and not self.query_start
        return wanted and self.eager_on_cpu and self.all_in_order

    @property
    def all_in_order(self) -> bool:
        """Whether all sentences are known to be at positions 0 .. S-1."""
        return self.positions is None or self.ordered_prefix == len(self.positions)

    @property
    def bounds(self) -> tuple[int, int]:
        """A lower and an upper bound of all ids."""
        if self.positions is None:
            return 0, self.length - 1
        if self.positions.device.type != "cpu":
            count = self._limit - HIDDEN_POSITION
            return HIDDEN_POSITION, self._limit - 1 + -count % POSITIONS_MULTIPLE
        return self.host_bounds

    @cached_property
    def host_bounds(self) -> tuple[int, int]:
        """The bounds of all ids, computed on the host."""
        assert self.positions is not None, "plain positions need no look"
        return min(0, int(self.positions.min())), max(self.length - 1, int(self.positions.max()))

    @property
    def max_offset(self) -> int:
        """An upper bound of all offsets."""
        low, high = self.bounds
        return high - low

    @cached_property
    def ids(self) -> Int[Tensor, "B S"]:
        """Position ids counted from 0."""
        assert self.positions is not None, "plain positions have no ids"
        return self.positions - self.bounds[0]

    @cached_property
    def ordered_prefix(self) -> int:
        """Number of sentences in order at the start of the batch; 0 on a GPU, without a check."""
        if self.positions is None or self.positions.device.type != "cpu":
            return 0
        in_order = (self.positions == torch.arange(self.length)).all(1)
        return int(in_order.long().cumprod(0).sum())

    @cached_property
    def moved_tokens(self) -> MovedTokens:
        """Tokens that are not in order; all of them on a GPU."""
        every, first, count = self.device.type != "cpu", -self.bounds[0], self.max_offset + 1
        return find_moved_tokens(self.ids, first, count, self.ordered_prefix, every=every)

    def prepare(self) -> None:
        """Find on a GPU what all layers read; compiled ones cannot make what is cached."""
        if self.positions is not None and self.positions.device.type != "cpu":
            self.moved_tokens  # noqa: B018

    @kept
    def tap_indices(self, radius: int) -> Int[Tensor, "#B S T"]:
        """Index of the tap for each pair; offsets beyond the radius share the outermost."""
        return self.differences.clamp(-radius, radius) + radius

    def tap_maps(self, radius: int) -> tuple[LinearMap, LinearMap]:
        """Reads taps by clipped offset, and its transpose, which sums scores by clipped offset."""
        plain = not torch.compiler.is_exporting() and self.shared and not self.query_start
        if plain and radius < self.length:
            return partial(read_diagonals, length=self.length), partial(
                sum_diagonals, radius=radius
            )
        index = self.tap_indices(radius)
        return partial(gather_scores, index=index), partial(sum_scores, index=index, radius=radius)

    @cached_property
    def differences(self) -> Int[Tensor, "#B S T"]:
        """j - i for each pair, not clipped."""
        if self.positions is not None:
            return self.positions[:, None, :] - self.positions[:, :, None]
        positions = torch.arange(self.length, device=self.device)
        return (positions - positions[self.query_start :, None])[None]

    @kept
    def window_mask(self, radius: int, dtype: torch.dtype) -> Float[Tensor, "#B 1 S T"] | None:
        """A bias that masks keys at a distance |p_j - p_i| above the radius, if there are any."""
        if not torch.compiler.is_exporting() and self.max_offset <= radius:
            return None
        return mask_outside(self.differences, radius, dtype)

    @kept
    def rotations(self, width: int, base: float, dtype: torch.dtype) -> Rotations:
        """Cosines and sines of the angles by which queries and new keys are rotated."""
        positions = self.positions
        if positions is None:
            positions = torch.arange(self.query_start, self.length, device=self.device)[None]
        return compute_rotations(positions, width, base, dtype)


def scatter_to_diagonals(
    taps: Float[Tensor, "#B H S R"], offsets: Offsets
) -> Float[Tensor, "#B H S T"]:
    """Scores by offset: out[b, h, i, j] = taps[b, h, i, clip(p_j - p_i) + radius]."""
    radius = (taps.shape[-1] - 1) // 2
    complete = radius == offsets.length - 1 if offsets.shared else radius >= offsets.max_offset
    if not offsets.query_start and not torch.compiler.is_exporting():
        if complete and offsets.all_in_order:
            return skew(taps)
        if complete:
            taps = taps.expand(len(offsets.ids), -1, -1, -1)
            return scatter_by_position(taps, offsets.ids, offsets.moved_tokens)
        return apply_linear(taps, *offsets.tap_maps(radius))
    return gather_scores(taps, offsets.tap_indices(radius))


def sum_by_offset(
    weights: Float[Tensor, "B H S T"], offsets: Offsets, radius: int
) -> Float[Tensor, "B H S R"]:
    """out[b, h, i, r] = sum of weights[b, h, i, j] over the j with clip(p_j - p_i) + radius = r."""
    read, add = offsets.tap_maps(radius)
    return apply_linear(weights, add, read)


CrossAttentionSource = tuple[Float[Tensor, "sources T D"], Bool[Tensor, "sources T"] | None]
"""States and padding of the source; several adjacent rows of the decoder may share one."""


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
