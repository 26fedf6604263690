"""How much attention stays near the diagonal of its map (Jiang et al. 2020, section 6.5)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

NEAR = 4
"""Tokens that are at most so far from each other are near."""


def concentration(
    weights: Float[Tensor, "B S S"], padding: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, " B"]:
    """C = sum_{|i-j| <= 4} M_ij / sum_{|i-j| > 4} M_ij (section 6.5), for each sentence.

    Rows of padding do not count, and nobody attends to it. A sentence of five tokens or fewer has
    none that are farther apart: its C is infinite.
    """
    total = weights.double()
    if padding is not None:
        total = total.masked_fill(padding[:, :, None], 0.0)
    far = total.triu(NEAR + 1).sum((1, 2)) + total.tril(-NEAR - 1).sum((1, 2))
    near = total.tril(NEAR).triu(-NEAR).sum((1, 2))
    return near / far


def of_even_attention(tokens: int) -> float:
    """C of a map of so many tokens, more than five, that all attend to all alike."""
    near = (2 * NEAR + 1) * tokens - NEAR * (NEAR + 1)
    return near / (tokens * tokens - near)
