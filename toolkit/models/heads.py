"""What turns an encoder's states into predictions."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.blocks import NORM_EPS
from toolkit.nn.initial import initialise


class TiedTokenHead(nn.Module):
    """E LN(gelu(W x + b)) + c with E the word table (Devlin et al. 2019).

    The table is given with every call and never registered here, so that it is counted, saved,
    wrapped and updated once.
    """

    def __init__(self, width: int, words: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(width, words.embedding_dim)
        self.norm = nn.LayerNorm(words.embedding_dim, eps=NORM_EPS)
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings))
        initialise(self)

    def forward(
        self, states: Float[Tensor, "N D"], table: Float[Tensor, "V E"]
    ) -> Float[Tensor, "N V"]:
        return F.linear(self.norm(F.gelu(self.transform(states))), table, self.bias)
