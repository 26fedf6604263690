"""From what attention looks at to its map: who attends to whom, and how much."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.terms import Content, ScoreTerm
from toolkit.nn.decoding_cache import AttentionCache, KeyValueCache
from toolkit.nn.ops import attention
from toolkit.nn.ops.dropout import Dropout


class AttentionMap(nn.Module, ABC):
    """Weights of the keys for each query, and the values averaged by them."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]: ...

    @abstractmethod
    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """sum_j w_ij v_j, without showing the weights where that is faster."""

    def init_cache(self) -> AttentionCache:
        """A new, empty cache of previous positions for a decoder."""
        raise ToolkitError(
            f"attention of a decoder must look to the left alone and say what it keeps, but "
            f"{type(self).__name__} does not. Take SoftmaxMap or KernelMap, or define keeps."
        )


class SoftmaxMap(AttentionMap):
    """dropout(softmax(sum of terms)), padding hidden (Vaswani et al. 2017, eq. 1)."""

    def __init__(
        self, content: Content, terms: Sequence[ScoreTerm] = (), dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.content, self.terms = content, nn.ModuleList(terms)
        self.dropout = Dropout(dropout)

    def bias(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"] | None:
        """The terms besides the content, added up."""
        total: Tensor | None = None
        for term in self.terms:
            total = term(p) if total is None else total + term(p)
        return total

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        scores, bias = self.content(p), self.bias(p)
        if p.sequence.causal:
            bias = attention.causal_bias(bias, p.q, p.k)
        if bias is not None:
            scores = scores + bias
        return self.dropout(
            attention.softmax(attention.mask_padding_keys(scores, p.sequence.padding))
        )

    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return attention.attend(
            p.q,
            p.k,
            p.v,
            self.bias(p),
            p.sequence.padding,
            scale=self.content.scale,
            dropout=self.dropout.effective_rate,
            causal=p.sequence.causal,
        )

    def init_cache(self) -> AttentionCache:
        return KeyValueCache()
