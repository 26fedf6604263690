"""What goes into an encoder and what comes out.

B batch   S places of a sentence   D model width   V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the data holds, as far as a model must know it."""

    tokens: int
    """Symbols in the vocabulary, special ones included."""


class Inputs(NamedTuple):
    """One batch of sentences. `None` is known on the host and takes the fast path."""

    tokens: Int[Tensor, "B S"]
    positions: Int[Tensor, "B S"] | None = None
    """Position ids; None means 0 .. S-1 in every sentence."""
    segments: Int[Tensor, "B S"] | None = None
    """Token types; None means all 0."""
    padding: Bool[Tensor, "B S"] | None = None
    """True where there is no token; None means that there is one everywhere."""


HIDDEN_POSITION = -1
"""Id of a position that the model must not know (TACO, A.2)."""


def position_rows(inputs: Inputs, max_positions: int) -> Int[Tensor, "#B S"]:
    """Rows of a table of positions 0 .. max_positions - 1 that ends in the hidden one's."""
    length, positions = inputs.tokens.shape[1], inputs.positions
    if length > max_positions:
        raise ToolkitError(
            f"sentences must have at most arch.max_positions = {max_positions} tokens, but one has "
            f"{length}. Shorten tokens_per_sample, or train with a larger arch.max_positions."
        )
    if positions is None:
        return torch.arange(length, device=inputs.tokens.device)[None]
    if (
        positions.device.type == "cpu"
        and not -1 <= int(positions.min()) <= int(positions.max()) < max_positions
    ):
        raise ToolkitError(
            f"position ids must lie in 0 .. {max_positions - 1}, or be {HIDDEN_POSITION} where "
            f"hidden, but reach from {int(positions.min())} to {int(positions.max())}. "
            f"Train with a larger arch.max_positions."
        )
    return torch.where(positions < 0, max_positions, positions)


class Columns(NamedTuple):
    """Which columns of the states predictions are made from."""

    words: slice
    """For tokens."""
    positions: slice
    """For positions."""


class Encoded(NamedTuple):
    """What an encoder makes of its inputs."""

    states: Float[Tensor, "B S D"]
    """Last layer's vectors."""
