"""Direct position interactions: learnt numbers in the scores, whatever stands at the places."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.nn.attention.kernels import Kernel
from toolkit.nn.attention.projected import Projected
from toolkit.nn.attention.terms import ScoreTerm
from toolkit.nn.initial import glorot_normal_


class PlaceTable(ScoreTerm):
    """P[h, i, j], a number for every pair of places (Dufter et al. 2020, section 2.3, A^p)."""

    def __init__(self, heads: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, length, length))
        for head in self.table.detach():
            glorot_normal_(head, length, length)

    def forward(self, p: Projected) -> Float[Tensor, "1 H S T"]:
        length = p.q.shape[2]
        return self.table[None, :, :length, :length]


class TurnedKernel(Kernel):
    """a[h, i - j + t], a in R^2t, the offset counted from the key (section 2.3, A^r).

    The first of the 2t numbers belongs to no pair of t places and is never read. With `spectral`,
    a is what the authors' code took it for, the spectrum of a circulant matrix: the numbers are
    Re(IDFT(a))[(i - j) mod 2t], in which left and right are the same.
    """

    def __init__(self, heads: int, length: int, *, spectral: bool) -> None:
        super().__init__()
        self.length, self.spectral = length, spectral
        self.numbers = nn.Parameter(torch.empty(heads, 2 * length))
        fan = math.sqrt(2 * length)
        glorot_normal_(self.numbers.detach(), fan, fan)

    def forward(self, p: Projected) -> Float[Tensor, "1 H 1 R"]:
        if not self.spectral:
            return self.numbers[:, 1:].flip(-1)[None, :, None]  # i - j = 1 - t .. t - 1, turned
        offsets = torch.arange(1 - self.length, self.length, device=self.numbers.device)
        frequencies = torch.arange(2 * self.length, device=self.numbers.device)
        waves = torch.cos(math.pi / self.length * (frequencies[:, None] * offsets).double())
        return (self.numbers @ waves.to(self.numbers.dtype) / (2 * self.length))[None, :, None]
