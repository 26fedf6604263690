"""Parts of conv_san: score biases of positions, and convolutions over attention weights (Dufter et
al. 2020, sections 2.3 and 2.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.attention.inputs import AttentionInputs
from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.maps import AttentionMap, SoftmaxMap
from toolkit.nn.attention.terms import Content, ScoreTerm
from toolkit.nn.init import glorot_normal_, glorot_uniform_
from toolkit.nn.ops.convolution import relu_convolution, to_compute_dtype

WIDTH = 3
"""Width of the filters."""
MAX_BANDED_KEYS = 128
"""Number of keys up to which banded filters are faster than torch's convolution on a CPU."""


class SmoothedMap(SoftmaxMap):
    """A' = conv(softmax(A)), whose rows need not sum to 1 (Dufter et al. 2020, section 2.5)."""

    def __init__(self, content: Content, terms: Sequence[ScoreTerm], smoothing: nn.Module) -> None:
        super().__init__(content, terms)
        self.smoothing = smoothing

    def forward(self, p: AttentionInputs) -> Float[Tensor, "B H S T"]:
        return self.smoothing(super().forward(p))

    init_cache = AttentionMap.init_cache  # it raises: the filters reach weights on the right

    def average(self, p: AttentionInputs) -> Float[Tensor, "B H S K"]:
        return self(p) @ p.v


class QueryConvolution(nn.Module):
    """relu(c_f + sum_m sum_k W[m, k, f] M[i + m, k]), m = -1, 0, 1: along the queries i (Dufter et
    al. 2020, section 2.5, 1d; the ReLU is in the authors' code only). The keys are channels, so the
    length is fixed.
    """

    def __init__(self, heads: int, length: int) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.empty(heads, WIDTH, length, length))
        self.bias = nn.Parameter(torch.zeros(heads, length))
        for head in self.filters.detach():
            glorot_uniform_(head, WIDTH * length, WIDTH * length)

    def forward(self, weights: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S T"]:
        """The weights convolved along the queries; T must be the length of the filters."""
        return convolve_by_head(weights, self.filters, self.bias)


def convolve_by_head(
    weights: Float[Tensor, "B H S T"], filters: Float[Tensor, "H R T T"], bias: Float[Tensor, "H T"]
) -> Float[Tensor, "B H S T"]:
    """Convolution of each head's weights along the queries.

    A GPU's softmax is in fp32 under autocast, which the backward pass does not see.
    """
    by_head = to_compute_dtype(weights).transpose(0, 1)
    return relu_convolution(by_head, filters, bias).transpose(0, 1)


class PairConvolution(nn.Module):
    """relu(c + sum_m sum_n w[m, n] M[i + m, j + n]), m, n = -1, 0, 1, one filter per head, zeros
    beyond the ends (Dufter et al. 2020, section 2.5, 2d; the ReLU is in the authors' code only).
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.empty(heads, 1, WIDTH, WIDTH))
        self.bias = nn.Parameter(torch.zeros(heads))
        glorot_uniform_(self.filters.detach(), WIDTH * WIDTH, WIDTH * WIDTH)

    def forward(self, weights: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S T"]:
        """The weights convolved along queries and keys."""
        length = weights.shape[3]
        if weights.device.type == "cpu" and length <= MAX_BANDED_KEYS:
            bias = self.bias[:, None].expand(-1, length)
            return convolve_by_head(weights, self.banded_filters(length), bias)
        filters, bias = self.filters.to(weights.dtype), self.bias.to(weights.dtype)
        return F.conv2d(weights, filters, bias, padding=1, groups=len(bias)).relu()

    def banded_filters(self, length: int) -> Float[Tensor, "H R T T"]:
        """Filters of the same convolution along the queries: W[m, k, f] = w[m, k - f]."""
        keys = torch.arange(length, device=self.filters.device)
        offsets = keys[:, None] - keys  # (k, f)
        taps = torch.arange(-(WIDTH // 2), WIDTH // 2 + 1, device=keys.device)
        bands = (offsets == taps[:, None, None]).to(self.filters.dtype)
        return torch.tensordot(self.filters[:, 0], bands, 1)  # (H, m, n) x (n, k, f)


class AbsolutePositionBias(ScoreTerm):
    """P[h, i, j], a number per pair of positions (Dufter et al. 2020, section 2.3, A^p)."""

    def __init__(self, heads: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, length, length))
        for head in self.table.detach():
            glorot_normal_(head, length, length)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H S T"]:
        length = p.q.shape[2]
        return self.table[None, :, :length, :length]


class ReversedKernel(Kernel):
    """a[h, i - j + t], a in R^2t, by the offset from the key (Dufter et al. 2020, 2.3, A^r).

    The first of the 2t numbers belongs to no pair of t positions and is never read. With `spectral`
    a is the spectrum of a circulant matrix, as in the authors' code: the biases are
    Re(IDFT(a))[(i - j) mod 2t], the same on the left and on the right.
    """

    def __init__(self, heads: int, length: int, *, spectral: bool) -> None:
        super().__init__()
        self.length, self.spectral = length, spectral
        self.numbers = nn.Parameter(torch.empty(heads, 2 * length))
        fan = math.sqrt(2 * length)
        glorot_normal_(self.numbers.detach(), fan, fan)

    def forward(self, p: AttentionInputs) -> Float[Tensor, "1 H 1 R"]:
        if not self.spectral:
            return self.numbers[:, 1:].flip(-1)[None, :, None]  # i - j = 1 - t .. t - 1, flipped
        offsets = torch.arange(1 - self.length, self.length, device=self.numbers.device)
        frequencies = torch.arange(2 * self.length, device=self.numbers.device)
        cosines = torch.cos(math.pi / self.length * (frequencies[:, None] * offsets).double())
        return (self.numbers @ cosines.to(self.numbers.dtype) / (2 * self.length))[None, :, None]
