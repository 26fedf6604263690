"""Values of attention: plain, with a depthwise convolution, or mixed with convolutional heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.attention.projections import split_heads
from toolkit.nn.ops.banded_convolution import dynamic_convolution
from toolkit.nn.ops.depthwise import DepthwiseConvolution, SeparableConvolution, mask_padding
from toolkit.nn.ops.dropout import Dropout


class AttentionValues(nn.Module, ABC):
    """What the attention map averages, and what is added or concatenated to it."""

    convolves: bool = False
    """Whether neighbors are neighbors in the tensors, so that sentences need padding in between."""
    sees_padding: bool = False
    """Whether the result depends on the states of padding."""

    @abstractmethod
    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """The output of the heads, before the output projection."""


class PlainValues(AttentionValues):
    """sum_j w_ij v_j (Vaswani et al. 2017, eq. 1)."""

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return attention_map.average(p)


class DepthwiseValues(AttentionValues):
    """sum_j w_ij v_j + sum_j beta_{j-i} * v_j, beta by channel (Chang et al. 2021, eq. 7).

    As in the authors' code (footnote 3), a convolution of the values with a bias is added after the
    attention's dropout; eq. 7 itself puts the kernel into the scores.
    """

    convolves = True

    def __init__(self, width: int, radius: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(width, radius)

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        v = p.v.transpose(1, 2).flatten(2)  # (B, H, T, K) -> (B, T, HK)
        y = self.convolution(mask_padding(v, p.sequence.padding))
        convolved = y.unflatten(-1, (p.v.shape[1], -1)).transpose(1, 2)  # -> (B, H, T, K)
        return attention_map.average(p) + convolved


class Convolution(nn.Module, ABC):
    """Output of the convolutional heads; masked positions are 0 in `p.x` and `p.v`."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        """The output of the convolutional heads."""


class KernelConvolution(Convolution):
    """sum_m w_{i,h,m} v_{i+m,h}, |m| <= radius, zeros beyond the ends (Jiang et al. 2020, eq. 5).

    The kernel normalizes the weights over its taps; they are not renormalized at the ends of a
    sentence.
    """

    def __init__(self, kernel: Kernel, dropout: float = 0.0) -> None:
        super().__init__()
        self.kernel, self.dropout = kernel, Dropout(dropout)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return dynamic_convolution(self.dropout(self.kernel(p)).to(p.v.dtype), p.v)


class PlainConvolution(Convolution):
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
        return split_heads(self.separable(p.x), self.heads)


class MixedValues(AttentionValues):
    """concat(heads of self-attention, heads of a convolution) (Jiang et al. 2020, eq. 6).

    Padding is zero for the convolution unless `sees_padding`.
    """

    convolves = True

    def __init__(self, convolution: Convolution, *, sees_padding: bool = False) -> None:
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
            return p.replace(v=v, sequence=p.sequence.without_padding())
        v = v.masked_fill(padding[:, None, :, None], 0.0)
        return p.replace(v=v, x=mask_padding(p.x, padding))
