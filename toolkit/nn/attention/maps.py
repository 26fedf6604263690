"""Attention maps: from queries and keys to attention weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.terms import Content, ScoreTerm
from toolkit.nn.decoding_cache import AttentionCache, KeyValueCache
from toolkit.nn.ops import attention
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.relative_attention import (
    OffsetTables,
    SentenceRows,
    add_tables,
    relative_attention,
)


class AttentionMap(nn.Module, ABC):
    """Attention weights of the keys for each query, and the values averaged with them."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        """The attention weights."""

    @abstractmethod
    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """sum_j w_ij v_j, without materializing the weights if that is faster."""

    @property
    def averages_rows(self) -> bool:
        """Whether `average` runs in one kernel if the context has rows."""
        return False

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

    @property
    def averages_rows(self) -> bool:
        tables = self.tables()
        return tables is not None and tables.fit

    def tables(self) -> OffsetTables | None:
        """What the kernel computes all terms but the content from; None if it cannot."""
        return add_tables([cast("ScoreTerm", term).tables() for term in self.terms])

    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        if p.qkv is not None and p.sequence.rows is not None:
            return self.average_rows(p, p.qkv, p.sequence.rows)
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

    def average_rows(
        self, p: AttentionInputs, qkv: Float[Tensor, "B S P H K"], rows: SentenceRows
    ) -> Float[Tensor, "B H S K"]:
        """The same in one kernel; 0 at padding."""
        tables = self.tables()
        assert tables is not None, "encoders pass rows to maps that average them"
        context = relative_attention(
            qkv.flatten(0, 1),
            tables,
            rows,
            scale=self.content.scale,
            dropout=self.dropout.effective_rate,
            causal=p.sequence.causal,
        )
        return context.unflatten(0, qkv.shape[:2]).transpose(1, 2)  # (BS, H, K) -> (B, H, S, K)

    def init_cache(self) -> AttentionCache:
        return KeyValueCache()
