"""Convolution heads that accompany self-attention heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.projections import split_heads
from toolkit.nn.ops.banded_convolution import dynamic_convolution
from toolkit.nn.ops.depthwise import SeparableConvolution
from toolkit.nn.ops.dropout import Dropout


class Convolution(nn.Module, ABC):
    """Output of the convolutional heads; masked positions are 0 in `p.x` and `p.v`."""

    @abstractmethod
    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]: ...


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
