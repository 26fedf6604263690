"""Disentangled attention with the projections of the content (He et al. 2021, section 3.1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.projections import LinearProjections
from toolkit.nn.attention.rotary import ContentChange
from toolkit.nn.ops.dropout import Dropout


class DisentangledProjections(LinearProjections):
    """q, k, v of the tokens, and q and k of the offset vectors by the same matrices and biases.

    As in DeBERTa's second version; the paper has separate matrices for offsets.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        *,
        convolution_values: bool = False,
        changes: Sequence[ContentChange] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            width, heads, head_width, convolution_values=convolution_values, changes=changes
        )
        self.dropout = Dropout(dropout)

    @property
    def keeps_rows(self) -> bool:
        return False

    def forward(self, x: Float[Tensor, "B S D"], sequence: SequenceContext) -> AttentionInputs:
        vectors, rows = sequence.offset_vectors, sequence.offset_rows
        assert vectors is not None, "the encoder passes its offset vectors to the layers"
        inner = self.qkv.out_features // self.parts
        weight, bias = self.qkv.weight[: 2 * inner], self.qkv.bias
        bias_qk = None if bias is None else bias[: 2 * inner]  # with arch.biases false
        qk = F.linear(self.dropout(vectors), weight, bias_qk).unflatten(-1, (2, self.heads, -1))
        q, k = qk.permute(1, 2, 0, 3)  # (R, 2, H, K) -> (2, H, R, K)
        if rows is not None:
            q, k = q.index_select(1, rows), k.index_select(1, rows)
        return super().forward(x, sequence).replace(offset_qk=(q, k))


class OffsetKernel(Kernel):
    """scale x_i . y_m for all offsets m in use, y their queries or keys.

    The vectors are those of i - j, so that of j - i = m is row -m.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    @abstractmethod
    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        """x and y."""

    def operands(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        x, vectors = self.factors(p)
        return x, (self.scale * vectors).to(x.dtype)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S O"]:
        x, vectors = self.operands(p)
        by_head = x.transpose(0, 1).flatten(1, 2)  # (B, H, S, K) -> (H, BS, K)
        taps = by_head @ vectors.mT
        return taps.unflatten(1, (x.shape[0], -1)).transpose(0, 1)  # (H, BS, O) -> (B, H, S, O)


class ContentToPosition(OffsetKernel):
    """q_i . k^r_{i-j}, added at j - i (He et al. 2021, eq. 4, second term)."""

    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None, "from DisentangledProjections"
        return p.term_queries, p.offset_qk[1].flip(1)


class PositionToContent(OffsetKernel):
    """k_j . q^r_{i-j}, taps of the key at i - j (He et al. 2021, eq. 4, third term).

    i - j as in the authors' code; the equation has j - i.
    """

    def factors(
        self, p: AttentionInputs
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "H O K"]]:
        assert p.offset_qk is not None, "from DisentangledProjections"
        return p.term_keys, p.offset_qk[0]
