"""Word vectors from characters by a convolutional network."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.init import glorot_uniform_
from toolkit.nn.ops.convolution import relu_convolution, to_compute_dtype

INIT_BOUND = 0.05
"""Bound of the uniform distribution that embeddings are initialized from, as in Keras."""


class CharacterCnn(nn.Module):
    """max over the characters of conv(... conv(characters)), each conv with a ReLU (Yu, Falenska &
    Vu 2017, as in the code of Dufter et al. 2020).

    Zeros beyond the ends; padding characters take part like all others.
    """

    def __init__(self, characters: int, width: int, kernel: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.filters = nn.ParameterList(torch.empty(kernel, width, width) for _ in range(layers))
        self.biases = nn.ParameterList(torch.zeros(width) for _ in range(layers))
        nn.init.uniform_(self.characters.weight, -INIT_BOUND, INIT_BOUND)
        for filters in self.filters:
            glorot_uniform_(filters.detach(), kernel * width, kernel * width)

    def forward(self, char_ids: Int[Tensor, "U C"]) -> Float[Tensor, "U E"]:
        x = to_compute_dtype(self.characters(char_ids))
        for filters, bias in zip(self.filters, self.biases, strict=True):
            x = relu_convolution(x[None], filters[None], bias[None])[0]
        return x.amax(1)
