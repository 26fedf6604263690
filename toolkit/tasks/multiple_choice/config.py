"""Options of the task multiple_choice, and how they are suited to an architecture."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import check_choice, require
from toolkit.tasks.glue.config import HEADS
from toolkit.tasks.squad.config import MIN_TOKENS

DEFAULT_TOKENS = 512
"""Tokens that are read at once by default, as in the papers; only RACE has so many."""


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig:
    head: str = "pooled"
    """What an option's score is read off. pooled: tanh of a linear map of the first token's last
    state, as BERT; plain: that state itself. TACO's state is its streams side by side."""
    head_dropout: float = 0.1
    """Share of the head's inputs zeroed in training, 0 to 1."""
    tokens_per_sample: int = 0
    """Most tokens of a passage with one option, special symbols included; of more the end is cut
    off, token by token where the pair is longer. 0 for 512, or what the architecture takes if
    less."""

    def __post_init__(self) -> None:
        check_choice("task.head", self.head, HEADS)
        require(
            0 <= self.head_dropout < 1,
            f"task.head_dropout must lie between 0 and 1, 1 excluded, but is {self.head_dropout}.",
        )
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample >= MIN_TOKENS,
            f"task.tokens_per_sample must be at least {MIN_TOKENS}, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )
