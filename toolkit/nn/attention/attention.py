"""Self-attention and cross-attention as composed parts: projections, maps, values and an output."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import (
    AttentionInputs,
    CrossAttentionSource,
    SequenceContext,
)
from toolkit.nn.attention.maps import AttentionMap, SoftmaxMap
from toolkit.nn.attention.offsets import Offsets
from toolkit.nn.attention.projections import Projections, split_heads
from toolkit.nn.attention.values import AttentionValues, PlainValues
from toolkit.nn.decoding_cache import AttentionCache, EncoderKV, EncoderKVCache, to_cache_dtype


class Attention(nn.Module):
    """W_O values(map(project(x))) + b_O.

    The values of all heads together have the model's width, or `context_width`. Without `output`
    the result is their concatenation.
    """

    def __init__(
        self,
        width: int,
        project: Projections,
        attention_map: AttentionMap,
        values: AttentionValues | None = None,
        context_width: int | None = None,
        *,
        output: bool = True,
    ) -> None:
        super().__init__()
        self.project, self.map, self.values = project, attention_map, values or PlainValues()
        self.output = nn.Linear(context_width or width, width) if output else nn.Identity()

    @property
    def accepts_rows(self) -> bool:
        """Whether it runs in one kernel if the context has rows."""
        if self.project.changes_content and self.map.kernel_reads_queries:
            return False
        values = self.values
        return self.project.keeps_rows and self.map.averages_rows and not values.sees_padding

    @property
    def accepts_packed_rows(self) -> bool:
        """The same without padding between the sentences."""
        return self.accepts_rows and not self.values.convolves

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        """With a cache, x holds new positions only; previous ones come from the cache."""
        p = self.project(x, sequence)
        if cache is not None:
            k, v = cache.append(p.k, p.v)
            p = p.replace(k=k, v=v)
        context = self.values(self.map, p)  # (B, H, S, K)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, H, S, K) -> (B, S, D)


class CrossAttention(nn.Module):
    """W_O softmax(q k^T / sqrt(K)) v, q = W_q x; k, v = W_k m, W_v m of the source m, with biases
    (Vaswani et al. 2017, section 3.2.3).
    """

    def __init__(self, width: int, heads: int, attention_map: SoftmaxMap) -> None:
        super().__init__()
        self.heads, self.map = heads, attention_map
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        source: CrossAttentionSource | None,
        cache: EncoderKVCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        """With a cache, the source is read at the first call and may be omitted afterwards."""
        p = self.project(x, source, cache)
        context, beam = self.map.average(p), len(x) // len(p.k)
        if beam > 1:
            by_row = context.unflatten(2, (beam, -1))  # (N, H, beam S, K) -> (N, H, beam, S, K)
            context = by_row.transpose(1, 2).flatten(0, 1)  # -> (B, H, S, K)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, H, S, K) -> (B, S, D)

    def project(
        self,
        x: Float[Tensor, "B S D"],
        source: CrossAttentionSource | None,
        cache: EncoderKVCache | None = None,
    ) -> AttentionInputs:
        """The queries of all rows of a source are concatenated, as if they were one sequence."""

        def read() -> EncoderKV:
            assert source is not None, "the first call has a source"
            k, v = split_heads(self.key_value(source.states), 2 * self.heads).chunk(2, 1)
            if cache is not None:
                k, v = to_cache_dtype(k).contiguous(), to_cache_dtype(v).contiguous()
            return EncoderKV(k, v, source.padding)

        k, v, padding = read() if cache is None else cache.get_or_compute(read)
        q, beam = split_heads(self.query(x), self.heads), len(x) // len(k)
        if beam > 1:
            q = q.unflatten(0, (-1, beam)).transpose(1, 2).flatten(2, 3)
        sequence = SequenceContext(Offsets(None, k.shape[2], x.device), padding)
        return AttentionInputs(q, k, v, x, sequence)

    def weights(
        self, x: Float[Tensor, "B S D"], source: CrossAttentionSource
    ) -> Float[Tensor, "B H S T"]:
        """Attention weights over the source."""
        return self.map(self.project(x, source))
