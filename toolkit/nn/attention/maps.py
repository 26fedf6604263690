"""Attention maps: from queries and keys to attention weights."""

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
    """Attention weights of the keys for each query, and the values averaged with them."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]: ...

    @abstractmethod
    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """sum_j w_ij v_j, without materializing the weights if that is faster."""

    def init_cache(self) -> AttentionCache:
        """A new, empty cache of previous positions for a decoder."""
        raise ToolkitError(
            f"a decoder requires an attention map that attends to the left only and defines "
            f"init_cache, but {type(self).__name__} does not. Use SoftmaxMap or KernelMap."
        )


class SoftmaxMap(AttentionMap):
    """dropout(softmax(sum of terms)), with padding masked (Vaswani et al. 2017, eq. 1)."""

    def __init__(
        self, content: Content, terms: Sequence[ScoreTerm] = (), dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.content, self.terms = content, nn.ModuleList(terms)
        self.dropout = Dropout(dropout)

    def bias(self, p: AttentionInputs) -> Float[Tensor, "#B H S T"] | None:
        """The sum of all terms but the content."""
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
        scores = attention.mask_padding_keys(scores, p.sequence.padding)
        return self.dropout(attention.softmax(scores))

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
