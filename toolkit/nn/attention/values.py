"""What the map is applied to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernel_convolution import Convolution
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.ops.depthwise import DepthwiseConvolution, mask_padding


class AttentionValues(nn.Module, ABC):
    @abstractmethod
    def forward(
        self, attention_map: AttentionMap, p: AttentionInputs
    ) -> Float[Tensor, "B H S K"]: ...


class PlainValues(AttentionValues):
    """sum_j w_ij v_j (Vaswani et al. 2017, eq. 1)."""

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return attention_map.average(p)


class DepthwiseValues(AttentionValues):
    """sum_j w_ij v_j + sum_j beta_{j-i} * v_j, beta by channel (Chang et al. 2021, eq. 7).

    As built by the authors (footnote 3): a convolution of the values, with a bias, added after
    the attention's dropout; eq. 7 itself writes the kernel into the scores.
    """

    def __init__(self, width: int, radius: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(width, radius)

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        v = mask_padding(
            p.v.transpose(1, 2).flatten(2), p.sequence.padding
        )  # (B, H, T, K) -> (B, T, HK)
        nearby = self.convolution(v).unflatten(-1, (p.v.shape[1], -1))
        return attention_map.average(p) + nearby.transpose(1, 2)  # (B, T, H, K) -> (B, H, T, K)


class MixedValues(AttentionValues):
    """concat(heads of self-attention, heads of a convolution) (Jiang et al. 2020, eq. 6).

    The convolution takes padding for the end of the text, unless it `sees_padding`.
    """

    def __init__(self, convolution: Convolution, *, sees_padding: bool = False) -> None:
        super().__init__()
        self.convolution, self.sees_padding = convolution, sees_padding

    def forward(self, attention_map: AttentionMap, p: AttentionInputs) -> Float[Tensor, "B H2 S K"]:
        both = (
            attention_map.average(p).transpose(1, 2),
            self.convolution(self.convolution_inputs(p)).transpose(1, 2),
        )
        return torch.cat(both, dim=2).transpose(1, 2)  # (B, S, H2, K) -> (B, H2, S, K)

    def convolution_inputs(self, p: AttentionInputs) -> AttentionInputs:
        v, padding = (
            p.v if p.convolution_values is None else p.convolution_values,
            p.sequence.padding,
        )
        if padding is None:
            return p._replace(v=v)
        if self.sees_padding:
            return p._replace(v=v, sequence=p.sequence._replace(padding=None))
        return p._replace(
            v=v.masked_fill(padding[:, None, :, None], 0.0), x=mask_padding(p.x, padding)
        )
