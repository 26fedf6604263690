"""Cross-attention of a decoder to the states of the source."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs, SequenceContext
from toolkit.nn.attention.maps import SoftmaxMap
from toolkit.nn.attention.offsets import Offsets
from toolkit.nn.attention.projections import split_heads
from toolkit.nn.decoding_cache import EncoderKV, EncoderKVCache, to_cache_dtype


class CrossAttentionSource(NamedTuple):
    """The encoded source; several adjacent rows of the decoder may share one."""

    states: Float[Tensor, "N T D"]
    padding: Bool[Tensor, "N T"] | None = None


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
