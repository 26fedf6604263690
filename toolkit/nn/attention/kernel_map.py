"""Lightweight convolution: a normalized kernel instead of scores and softmax."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.maps import AttentionMap
from toolkit.nn.decoding_cache import ConvolutionCache
from toolkit.nn.ops.banded_convolution import dynamic_convolution
from toolkit.nn.ops.dropout import Dropout


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
        return taps.expand(len(p.q), -1, p.q.shape[2], -1)

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
