"""Attention as composed parts: projections, maps, values and an output; cross-attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import (
    AttentionInputs,
    CrossAttentionSource,
    Offsets,
    SequenceContext,
)
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.maps import AttentionMap, SoftmaxMap
from toolkit.nn.attention.projections import ConvolvedProjections, Projections, split_heads
from toolkit.nn.decoding_cache import AttentionCache, SourceCache, to_cache_dtype
from toolkit.nn.ops.banded_convolution import dynamic_convolution
from toolkit.nn.ops.convolution import DepthwiseConvolution, SeparableConvolution, mask_padding
from toolkit.nn.ops.dropout import Dropout


class Attention(nn.Module):
    """W_O values(map(project(x))) + b_O.

    The values of all heads together have the model's width, or `context_width`. Without `output`
    the result is their concatenation. With a `gate` they are multiplied by sigmoid(W_g x + b_g) in
    front of W_O (Qiu et al. 2025), or by another `gate_activation`.
    """

    gate_activation: Callable[[Tensor], Tensor] = staticmethod(torch.sigmoid)

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
        self.project, self.map, self.values = project, attention_map, values or AttentionValues()
        last = nn.Linear(context_width or width, width) if output else nn.Identity()
        self.output: nn.Module = last
        self.gate: nn.Linear | None = None

    @property
    def accepts_rows(self) -> bool:
        """Whether it runs in one kernel if the context has rows."""
        if not isinstance(self.map, SoftmaxMap):
            return False
        reads_others = self.project.changes_content and self.map.kernel_reads_queries
        has_kernel = self.project.keeps_rows and self.map.averages_rows
        return has_kernel and not (reads_others or self.values.sees_padding)

    @property
    def can_be_causal(self) -> bool:
        """Whether nothing but the softmax looks to the right, where it can be masked."""
        convolved = self.values.convolves or isinstance(self.project, ConvolvedProjections)
        return isinstance(self.map, SoftmaxMap) and not convolved

    @property
    def accepts_packed_rows(self) -> bool:
        """The same without padding between the sentences."""
        return self.accepts_rows and not (self.values.convolves or self.project.looks_back)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        """With a cache, x holds new positions only; previous ones come from the cache."""
        return self.output(self.hidden(x, sequence, cache))

    def hidden(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "B S W"]:
        """What W_O is applied to."""
        p = self.project(x, sequence)
        if cache is not None:
            k, v = cache.append(p.k, p.v)
            p = p.replace(k=k, v=v)
        context = self.values(self.map, p).transpose(1, 2).flatten(2)  # (B, H, S, K) -> (B, S, HK)
        if self.gate is not None:
            context = context * self.gate_activation(self.gate(x))
        return context


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
        cache: SourceCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        """With a cache, the source is read at the first call and may be omitted afterwards."""
        p = self.project(x, source, cache)
        context, beam = self.map.average(p), len(x) // len(p.k)
        if beam > 1:
            # (N, H, beam S, K) -> (N, H, beam, S, K) -> (B, H, S, K)
            context = context.unflatten(2, (beam, -1)).transpose(1, 2).flatten(0, 1)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, H, S, K) -> (B, S, D)

    def project(
        self,
        x: Float[Tensor, "B S D"],
        source: CrossAttentionSource | None,
        cache: SourceCache | None = None,
    ) -> AttentionInputs:
        """The queries of all rows of a source are concatenated, as if they were one sequence."""
        if cache is not None and cache.kv is not None:
            k, v, padding = cache.kv
        else:
            assert source is not None, "the first call has a source"
            states, padding = source
            k, v = split_heads(self.key_value(states), 2 * self.heads).chunk(2, 1)
            if cache is not None:
                k, v = to_cache_dtype(k).contiguous(), to_cache_dtype(v).contiguous()
                cache.kv = k, v, padding
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


class AttentionValues(nn.Module):
    """sum_j w_ij v_j (Vaswani et al. 2017, eq. 1); subclasses add or concatenate something."""

    convolves: bool = False
    """Whether neighbors are neighbors in the tensors, so that sentences need padding in between."""
    sees_padding: bool = False
    """Whether the result depends on the states of padding."""

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """The output of the heads, before the output projection."""
        return attention_map.average(p)


class DepthwiseValues(AttentionValues):
    """sum_j w_ij v_j + sum_j beta_{j-i} * v_j, beta by channel (Chang et al. 2021, eq. 7), a
    convolution with a bias after the attention's dropout, as in the authors' code (footnote 3).
    """

    convolves = True

    def __init__(self, width: int, radius: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(width, radius)

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        v = p.v.transpose(1, 2).flatten(2)  # (B, H, T, K) -> (B, T, HK)
        y = self.convolution(mask_padding(v, p.sequence.padding))
        return attention_map.average(p) + split_heads(y, p.v.shape[1])


class KernelConvolution(nn.Module):
    """sum_m w_{i,h,m} v_{i+m,h}, |m| <= radius, zeros beyond the ends (Jiang et al. 2020, eq. 5).

    The kernel normalizes the weights over its taps, also at the ends of a sentence.
    """

    def __init__(self, kernel: Kernel, dropout: float = 0.0) -> None:
        super().__init__()
        self.kernel, self.dropout = kernel, Dropout(dropout)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """The sums for every query and head; the values are those of p, 0 at padding."""
        return dynamic_convolution(self.dropout(self.kernel(p)).to(p.v.dtype), p.v)


class PlainConvolution(nn.Module):
    """A depthwise separable convolution of the input ("conventional", Jiang et al. 2020, 4.3)."""

    def __init__(
        self, width: int, heads: int, head_width: int, radius: int, *, depthwise_bias: bool = False
    ) -> None:
        super().__init__()
        self.heads = heads
        self.separable = SeparableConvolution(
            width, heads * head_width, radius, depthwise_bias=depthwise_bias
        )

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """The convolution of p.x, split into heads."""
        return split_heads(self.separable(p.x), self.heads)


class MixedValues(AttentionValues):
    """concat(heads of self-attention, heads of a convolution) (Jiang et al. 2020, eq. 6).

    Padding is 0 in the `p.x` and `p.v` that the convolution reads, unless `sees_padding`.
    """

    convolves = True

    def __init__(self, convolution: nn.Module, *, sees_padding: bool = False) -> None:
        super().__init__()
        self.convolution, self.sees_padding = convolution, sees_padding

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H2 S K"]:
        parts = attention_map.average(p), self.convolution(self.convolution_inputs(p))
        by_token = [part.transpose(1, 2) for part in parts]  # (B, H, S, K) -> (B, S, H, K)
        return torch.cat(by_token, dim=2).transpose(1, 2)  # (B, S, H2, K) -> (B, H2, S, K)

    def convolution_inputs(self, p: AttentionInputs) -> AttentionInputs:
        """The inputs of the convolution, 0 at padding."""
        v = p.v if p.convolution_values is None else p.convolution_values
        padding = p.sequence.padding
        if padding is None:
            return p.replace(v=v)
        if self.sees_padding:
            sequence = SequenceContext(**{**p.sequence._asdict(), "padding": None})
            return p.replace(v=v, sequence=sequence)
        v = v.masked_fill(padding[:, None, :, None], 0.0)
        return p.replace(v=v, x=mask_padding(p.x, padding))
