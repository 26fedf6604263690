"""What goes into an encoder and what comes out.

B batch   S places of a sentence   D model width   V vocabulary
U distinct words of the batch   C characters of a word
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

EncoderModel = Any
"""What a task asks of an encoder."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the data holds, as far as a model must know it."""

    tokens: int
    """Symbols in the vocabulary, special ones included."""
    characters: int = 0
    """Symbols that words are spelled with, special ones included; 0 where words are not spelled."""
    tags: int = 0
    """Tags that a word may have; 0 where words have none."""
    targets: int = 0
    """Symbols in the vocabulary of what is written, special ones included; 0 where it is the same,
    or where nothing is written."""
    labels: int = 0
    """Classes that a text may have; 1 where it has a number, 0 where it has neither."""


class Inputs(NamedTuple):
    """One batch of sentences. `None` is known on the host and takes the fast path."""

    tokens: Int[Tensor, "B S"]
    positions: Int[Tensor, "B S"] | None = None
    """Position ids; None means 0 .. S-1 in every sentence."""
    segments: Int[Tensor, "B S"] | None = None
    """Token types; None means all 0."""
    padding: Bool[Tensor, "B S"] | None = None
    """True where there is no token; None means that there is one everywhere."""
    char_ids: Int[Tensor, "U C"] | None = None
    """Characters of the batch's distinct words, for encoders that read words."""
    word_index: Int[Tensor, "B S"] | None = None
    """Which row of `spellings` spells the word at each place."""


class HeadColumns(NamedTuple):
    """Which columns of the states predictions are made from."""

    tokens: slice
    """For tokens."""
    positions: slice
    """For positions."""


class Encoded(NamedTuple):
    """What an encoder makes of its inputs."""

    states: Float[Tensor, "B S D"]
    """Last layer's vectors."""
