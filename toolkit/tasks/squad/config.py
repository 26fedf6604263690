"""Options of the task squad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from toolkit.config.declared import AtLeast, PositiveInt
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_PAIR
from toolkit.tasks.feature_options import FeatureOptions


@dataclass(frozen=True, kw_only=True)
class SquadConfig(FeatureOptions, section="task"):
    """Options of the task squad."""

    tokens_per_sample: Annotated[int, AtLeast(8, or_zero=True)] = 0
    """Maximum number of tokens of question and passage, special tokens included; longer passages
    are read in several windows. 0 for 384, or the architecture's maximum if less."""
    stride: PositiveInt = 128
    """Passage tokens between the starts of two windows."""
    question_tokens: PositiveInt = 64
    """Maximum number of tokens of a question; longer ones, and those longer than half a window, are
    truncated."""
    answer_tokens: PositiveInt = 30
    """Maximum number of tokens of a predicted answer."""
    nbest: PositiveInt = 20
    """Number of answers kept per question."""

    @property
    def max_question_tokens(self) -> int:
        return min(self.question_tokens, (self.tokens_per_sample - SPECIAL_OF_PAIR) // 2)
