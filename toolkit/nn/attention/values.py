"""What the map is applied to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.inputs import Projected
from toolkit.nn.attention.kernel_convolution import Convolution
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.ops.depthwise import DepthwiseConvolution, hide


class Values(nn.Module, ABC):
    @abstractmethod
    def forward(self, map_: AttentionMap, p: Projected) -> Float[Tensor, "B H S K"]: ...


class PlainValues(Values):
    """sum_j w_ij v_j (Vaswani et al. 2017, eq. 1)."""

    def forward(self, map_: AttentionMap, p: Projected) -> Float[Tensor, "B H S K"]:
        return map_.average(p)


class DepthwiseValues(Values):
    """sum_j w_ij v_j + sum_j beta_{j-i} * v_j, beta by channel (Chang et al. 2021, eq. 7).

    As built by the authors (footnote 3): a convolution of the values, with a bias, added after
    the attention's dropout; eq. 7 itself writes the kernel into the scores.
    """

    def __init__(self, width: int, radius: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(width, radius)

    def forward(self, map_: AttentionMap, p: Projected) -> Float[Tensor, "B H S K"]:
        v = hide(p.v.transpose(1, 2).flatten(2), p.places.padding)  # (B, H, T, K) -> (B, T, HK)
        nearby = self.convolution(v).unflatten(-1, (p.v.shape[1], -1))
        return map_.average(p) + nearby.transpose(1, 2)  # (B, T, H, K) -> (B, H, T, K)


class MixedValues(Values):
    """concat(heads of self-attention, heads of a convolution) (Jiang et al. 2020, eq. 6).

    The convolution takes padding for the end of the text, unless it `sees_padding`.
    """

    def __init__(self, convolution: Convolution, *, sees_padding: bool = False) -> None:
        super().__init__()
        self.convolution, self.sees_padding = convolution, sees_padding

    def forward(self, map_: AttentionMap, p: Projected) -> Float[Tensor, "B H2 S K"]:
        both = map_.average(p).transpose(1, 2), self.convolution(self.seen(p)).transpose(1, 2)
        return torch.cat(both, dim=2).transpose(1, 2)  # (B, S, H2, K) -> (B, H2, S, K)

    def seen(self, p: Projected) -> Projected:
        v, padding = p.v if p.nearby is None else p.nearby, p.places.padding
        if padding is None:
            return p._replace(v=v)
        if self.sees_padding:
            return p._replace(v=v, places=p.places._replace(padding=None))
        return p._replace(v=v.masked_fill(padding[:, None, :, None], 0.0), x=hide(p.x, padding))
