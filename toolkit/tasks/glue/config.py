"""Options of the task glue, and how they are suited to an architecture."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import check_choice, require

HEADS = ("pooled", "plain")
DEFAULT_TOKENS = 128
"""Tokens that are read at once by default, as in the papers."""


@dataclass(frozen=True, kw_only=True)
class GlueConfig:
    head: str = "pooled"
    """What the answer is read off. pooled: tanh of a linear map of the first token's last state, as
    BERT and Chang et al. 2021; plain: that state itself, as ConvBERT. TACO's state is its streams
    side by side, of words and of positions."""
    head_dropout: float = 0.1
    """Share of the head's inputs zeroed in training, 0 to 1."""
    tokens_per_sample: int = 0
    """Most tokens of a text or pair, special symbols included; of longer ones the end is cut off,
    token by token where the pair is longer. 0 for 128, or what the architecture takes if less."""

    def __post_init__(self) -> None:
        check_choice("task.head", self.head, HEADS)
        require(
            0 <= self.head_dropout < 1,
            f"task.head_dropout must lie between 0 and 1, 1 excluded, but is {self.head_dropout}.",
        )
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 4,
            f"task.tokens_per_sample must be at least 5, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )
