"""Attention maps: a softmax of scores over the keys, or a normalized kernel over offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel, OffsetValues
from toolkit.nn.attention.terms import Content, ScoreTerm
from toolkit.nn.decoding_cache import AttentionCache, ConvolutionCache, KeyValueCache
from toolkit.nn.ops import attention
from toolkit.nn.ops.attention import banded_attention, banded_is_faster
from toolkit.nn.ops.banded_convolution import dynamic_convolution
from toolkit.nn.ops.dispatch import fast
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.kernel_inputs import OffsetTables, SentenceRows, add_tables
from toolkit.nn.ops.offsets.attention import OffsetProduct, attend_by_offset
from toolkit.nn.ops.relative_attention import relative_attention


class AttentionMap(nn.Module, ABC):
    """Attention weights of the keys for each query, and the values averaged with them."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        """The attention weights."""

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
    """dropout(softmax(sum of terms)), with padding masked (Vaswani et al. 2017, eq. 1).

    With `offset_values` a vector of the offset is added to each value. With `window_radius` the
    softmax is over the keys at a distance |p_j - p_i| up to it (Beltagy et al. 2020, section 3.1).
    """

    window_radius: int | None = None

    def __init__(
        self,
        content: Content,
        terms: Sequence[ScoreTerm] = (),
        dropout: float = 0.0,
        offset_values: OffsetValues | None = None,
    ) -> None:
        super().__init__()
        self.content, self.terms = content, nn.ModuleList(terms)
        self.dropout, self.offset_values = Dropout(dropout), offset_values

    def bias(
        self, p: AttentionInputs, terms: Sequence[nn.Module] | None = None
    ) -> Float[Tensor, "#B #H S T"] | None:
        """The sum of all terms but the content, or of some, and the mask outside the window."""
        total: Tensor | None = None
        for term in self.terms if terms is None else terms:
            total = term(p) if total is None else total + term(p)
        if self.window_radius is None:
            return total
        mask = p.sequence.offsets.window_mask(self.window_radius, p.q.dtype)
        return total if mask is None else mask if total is None else total + mask

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
        """Whether `average` runs in one kernel if the context has rows."""
        tables = self.tables()
        plain = self.offset_values is None and self.window_radius is None
        return plain and tables is not None and tables.fit

    @property
    def kernel_reads_queries(self) -> bool:
        """Whether that kernel computes terms from queries or keys."""
        tables = self.tables()
        return tables is None or tables.query is not None or tables.key is not None

    def tables(self) -> OffsetTables | None:
        """What the kernel computes all terms but the content from; None if it cannot."""
        return add_tables([cast("ScoreTerm", term).tables() for term in self.terms])

    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        if p.qkv is not None and p.sequence.rows is not None:
            return self.average_rows(p, p.qkv, p.sequence.rows)
        if self.window_radius is not None and self.uses_blocks(p, self.window_radius):
            return banded_attention(
                *(p.q, p.k, p.v, p.sequence.padding, self.window_radius),
                scale=self.content.scale,
                dropout=self.dropout.effective_rate,
            )
        products = [cast("ScoreTerm", term).product(p) for term in self.terms]
        if any(products) or (
            self.offset_values is not None
            and p.sequence.offsets.eager_on_cpu
            and fast("offset_attention")
        ):
            return self.average_by_offset(p, products)
        if self.offset_values is not None:
            weights = self(p)
            return weights @ p.v + self.offset_values(weights, p.sequence.offsets)
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

    def uses_blocks(self, p: AttentionInputs, radius: int) -> bool:
        """Whether the average within the window is computed in blocks of queries."""
        only_content = not self.terms and self.offset_values is None and not p.sequence.causal
        plain = p.sequence.offsets.shared and not p.sequence.offsets.query_start
        return only_content and plain and banded_is_faster(p.q, radius)

    def average_by_offset(
        self, p: AttentionInputs, products: Sequence[OffsetProduct | None]
    ) -> Float[Tensor, "B H S K"]:
        """The same, with the products of some terms and with the values of the offsets."""
        others = [term for term, x in zip(self.terms, products, strict=True) if x is None]
        bias, offsets = self.bias(p, others), p.sequence.offsets
        return attend_by_offset(
            *(p.q, p.k, p.v),
            attention.causal_bias(bias, p.q, p.k) if p.sequence.causal else bias,
            p.sequence.padding,
            [product for product in products if product is not None],
            None if self.offset_values is None else self.offset_values.table(offsets),
            scale=self.content.scale,
            dropout=self.dropout.effective_rate,
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


class KernelMap(AttentionMap):
    """w_{i,j} = taps_{i, j-i}, with dropout on the taps (Wu et al. 2019, eq. 3 and 4).

    The kernel is normalized over its taps, not over the keys: weight beyond the ends or on padding
    is lost. With `left_only` the window ends at the current position instead of surrounding it.
    """

    def __init__(
        self, kernel: Kernel, size: int, dropout: float = 0.0, *, left_only: bool = False
    ) -> None:
        super().__init__()
        assert size % 2, "a kernel has the same number of taps on both sides"
        self.kernel, self.size, self.left_only = kernel, size, left_only
        self.dropout = Dropout(dropout)

    @property
    def left_window(self) -> int:
        """Number of previous positions in the window."""
        return self.size - 1 if self.left_only else self.size // 2

    def init_cache(self) -> ConvolutionCache:
        assert self.left_only, "decoders attend to the left only"
        return ConvolutionCache(self.left_window)

    def taps(self, p: AttentionInputs) -> Float[Tensor, "B H S R"]:
        """The taps of all positions, with dropout."""
        taps = self.dropout(self.kernel(p)).to(p.v.dtype)
        return taps.expand(p.q.shape[0], -1, p.q.shape[2], -1)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        taps, length = self.taps(p), p.v.shape[2]
        positions = torch.arange(length, device=taps.device)
        index = positions - positions[length - p.q.shape[2] :, None] + self.left_window
        outside = (index < 0) | (index >= self.size)
        if p.sequence.padding is not None:
            outside = outside | p.sequence.padding[:, None, None]
        index = index.clamp(0, self.size - 1).expand(*taps.shape[:3], -1)
        return taps.gather(-1, index).masked_fill(outside, 0.0)

    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        taps, v = self.taps(p), p.v
        if v.shape[2] > p.q.shape[2]:  # values of previous positions come first
            return (taps.unsqueeze(-2) @ v.unfold(2, self.size, 1).mT).squeeze(-2)
        if p.sequence.padding is not None:
            v = v.masked_fill(p.sequence.padding[:, None, :, None], 0.0)
        if not self.left_only:
            return dynamic_convolution(taps, v)
        # A window that ends at a position is centered `radius` positions further left.
        radius, length = self.size // 2, v.shape[2]
        taps, v = F.pad(taps, (0, 0, 0, radius)), F.pad(v, (0, 0, radius, 0))
        return dynamic_convolution(taps, v)[:, :, :length]
