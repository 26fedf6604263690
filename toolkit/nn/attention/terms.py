"""Score terms, the summands of the attention scores, and changes of the product of contents."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs, scatter_to_diagonals
from toolkit.nn.attention.kernels import Kernel, OffsetKernel
from toolkit.nn.ops.batched_products import multiply_by_head
from toolkit.nn.ops.kernel_inputs import KEY_TAPS, QUERY_TAPS, MapSource, OffsetTables, add_tables
from toolkit.nn.ops.layer_norm import RMSNorm
from toolkit.nn.ops.offsets.attention import OffsetProduct


class ScoreTerm(nn.Module, ABC):
    """One summand of the attention scores; may broadcast over the batch."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        """The summand for each query and key."""

    def product(self, p: AttentionInputs) -> OffsetProduct | None:
        """What attention by offset computes the summand from, if that is faster; None if not."""
        return None

    def source(self, p: AttentionInputs) -> MapSource:
        """The summand, or taps that it is a view of."""
        return MapSource(self(p))

    def tables(self) -> OffsetTables | None:
        """What attention in one kernel computes the summand from; None if it cannot."""
        return None


class ContentChange(nn.Module, ABC):
    """Changes the values, or the queries and keys of the product q . k, of which terms and kernels
    read those before.
    """

    @abstractmethod
    def forward(self, p: AttentionInputs) -> AttentionInputs:
        """The inputs with other q, k or v."""

    def restrict(self) -> None:
        """Change to what layers with a sliding window have."""


EPS = 1e-6
START = 4.0
"""Initial s of `SmearedKeys`: the key itself has the weight 0.98."""


class QueryKeyNorm(ContentChange):
    """g_q * q / RMS(q) and g_k * k / RMS(k) of each query and key (Henry et al. 2020, eq. 1, with
    the root mean square for the norm and a gain by column).

    Scores of contents are then at most sqrt(K) times the largest |g_q g_k|.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.query_norm, self.key_norm = RMSNorm(head_width, EPS), RMSNorm(head_width, EPS)

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        return p.with_content(self.query_norm(p.q), self.key_norm(p.k))


class SmearedKeys(ContentChange):
    """k_i <- w k_i + (1 - w) k_{i-1}, w = sigmoid(s) of each head; the first key stays (Olsson et
    al. 2022, "smeared keys"). Neighbors are those in the tensor: sentences must not be packed.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.smear_bias = nn.Parameter(torch.full((heads, 1, 1), START))

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        before = torch.cat([p.k[:, :, :1], p.k[:, :, :-1]], dim=2)
        weight = self.smear_bias.to(p.k.dtype).sigmoid()
        return p.with_content(p.q, torch.lerp(before, p.k, weight))


FIRST = "first"
"""Name of the first layer's values in `SequenceContext.values`."""


class KeptValues(ContentChange):
    """Stores the values of the first layer for those that add them."""

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        assert p.sequence.values is not None, "the encoder passes it"
        p.sequence.values[FIRST] = p.v
        return p


class MixedInValues(ContentChange):
    """v <- a v + b u with learned a = b = 1/2 at first, u the values of the first layer (Zhou et
    al. 2024, learnable variant) or embeddings of the tokens (modded-nanogpt, Jordan et al. 2024).
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.mix_bias = name, nn.Parameter(torch.full((2,), 0.5))

    def forward(self, p: AttentionInputs) -> AttentionInputs:
        assert p.sequence.values is not None, "the encoder passes it"
        own, other = self.mix_bias.to(p.v.dtype)
        return p.replace(v=own * p.v + other * p.sequence.values[self.name].to(p.v.dtype))


class Content(ScoreTerm):
    """q_i . k_j / sqrt(K) (Vaswani et al. 2017, eq. 1)."""

    def __init__(self, head_width: int, products: int = 1) -> None:
        """With `products` of queries or keys in the scores, they are divided by sqrt(products K)
        (He et al. 2021, section 3.1).
        """
        super().__init__()
        self.scale = 1 / math.sqrt(products * head_width)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        return self.scale * (p.q @ p.k.mT)  # (B, H, S, K) @ (B, H, K, T)

    def source(self, p: AttentionInputs) -> MapSource:
        return MapSource(multiply_by_head(p.q, p.k, self.scale))


class Relative(ScoreTerm):
    """Sum of kernels at j - i, offsets clipped to the radius (Chang et al. 2021, eq. 4 to 6).

    The taps of all kernels are summed first, so that they are scattered to diagonals only once.
    """

    source_kind: ClassVar[int] = QUERY_TAPS

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(kernels)

    def taps(self, p: AttentionInputs) -> Float[Tensor, "#B H S R"]:
        """The sum of the taps of all kernels."""
        total = self.kernels[0](p)
        for kernel in self.kernels[1:]:
            total = total + kernel(p)
        return total.to(p.q.dtype).expand(-1, -1, p.q.shape[2], -1)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        return scatter_to_diagonals(self.taps(p), p.sequence.offsets)

    def product(self, p: AttentionInputs) -> OffsetProduct | None:
        kernel = self.kernels[0]
        taps_are_read = len(self.kernels) > 1 or kernel._forward_hooks
        if not isinstance(kernel, OffsetKernel) or taps_are_read:
            return None
        if not p.sequence.offsets.multiplies_in_blocks:
            return None
        x, vectors = kernel.operands(p)
        return OffsetProduct(x, vectors, by_key=self.source_kind == KEY_TAPS)

    def tables(self) -> OffsetTables | None:
        return add_tables([cast("Kernel", kernel).tables() for kernel in self.kernels])

    def source(self, p: AttentionInputs) -> MapSource:
        """Taps of all offsets and one more, if there are; otherwise the summand."""
        vectors, length = p.sequence.offset_vectors, p.q.shape[2]
        if p.sequence.offsets.shared and vectors is not None and len(vectors) == 2 * length:
            return MapSource(self.taps(p), self.source_kind)
        return MapSource(self(p))


class RelativeToKey(Relative):
    """Sum of kernels of the key at i - j: the taps of position j are read for each query i."""

    source_kind = KEY_TAPS

    def forward(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"]:
        return scatter_to_diagonals(self.taps(p), p.sequence.offsets).mT

    def tables(self) -> OffsetTables | None:
        return add_tables([cast("Kernel", kernel).key_tables() for kernel in self.kernels])
