"""Words from the characters that spell them."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.initial import glorot_uniform_

BOUND = 0.05
"""Of the uniform distribution that tables begin with, as in Keras."""


class Spelling(nn.Module):
    """max over the places of conv(... conv(characters)), each a ReLU of a convolution (Yu, Falenska
    & Vu 2017, as in the code of Dufter et al. 2020).

    Zeros beyond the ends; the characters that fill a word up take part like any others.
    """

    def __init__(self, characters: int, width: int, kernel: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        nn.init.uniform_(self.characters.weight, -BOUND, BOUND)
        self.convolutions = nn.ModuleList(convolution(width, kernel) for _ in range(layers))

    def forward(self, spellings: Int[Tensor, "U C"]) -> Float[Tensor, "U E"]:
        x = self.characters(spellings).mT  # (U, C, E) -> (U, E, C)
        *others, last = self.convolutions
        for convolution in others:
            x = convolution(x).relu()
        return last(x).amax(-1).relu()  # the largest stays the largest


def convolution(width: int, kernel: int) -> nn.Conv1d:
    made = nn.Conv1d(width, width, kernel, padding="same")
    glorot_uniform_(made.weight, kernel * width, kernel * width)
    assert made.bias is not None, "a convolution has one by default"
    nn.init.zeros_(made.bias)
    return made
