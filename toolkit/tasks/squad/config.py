"""Options of the task squad, and how they are suited to an architecture."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import require
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_PAIR

DEFAULT_TOKENS = 384
"""Tokens that are read at once by default, as in the papers."""
MIN_TOKENS = 8


@dataclass(frozen=True, kw_only=True)
class SquadConfig:
    tokens_per_sample: int = 0
    """Most tokens of question and passage, special symbols included; longer passages are read in
    several windows. 0 for 384, or what the architecture takes if less."""
    stride: int = 128
    """Tokens of the passage from the beginning of a window to that of the next one."""
    question_tokens: int = 64
    """Most tokens of a question; of a longer one, and of one longer than half a window, the end is
    cut off."""
    answer_tokens: int = 30
    """Most tokens of an answer that is given."""
    nbest: int = 20
    """Answers that are kept for each question, the best ones."""

    def __post_init__(self) -> None:
        for name in ("stride", "question_tokens", "answer_tokens", "nbest"):
            value = getattr(self, name)
            require(value > 0, f"task.{name} must be at least 1, but is {value}.")
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample >= MIN_TOKENS,
            f"task.tokens_per_sample must be at least {MIN_TOKENS}, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )

    @property
    def max_question_tokens(self) -> int:
        return min(self.question_tokens, (self.tokens_per_sample - SPECIAL_OF_PAIR) // 2)
