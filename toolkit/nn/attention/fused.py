"""The one place that chooses how softmax(scores) V is computed."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.nn.dropout import Dropout

HIDDEN = -30000.0  # finite, so that a row of padding alone stays a number; exp(HIDDEN) is 0


def normalise(
    scores: Float[Tensor, "B H S T"], padding: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B H S T"]:
    """Softmax over the keys, statistics in fp32; a row of padding alone is no NaN."""
    if padding is not None:
        scores = scores.masked_fill(padding[:, None, None, :], HIDDEN)
    return scores.softmax(-1)


def attend(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    *,
    scale: float,
    dropout: Dropout,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T + bias)) v."""
    scores = scale * (q @ k.mT)
    if bias is not None:
        scores = scores + bias
    return dropout(normalise(scores, padding)) @ v
