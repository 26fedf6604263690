"""Options of the task mpm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import ADVANCED, OF_MODEL, Fraction, PositiveInt, Size
from toolkit.tasks.pretraining.masking_config import (
    MaskingConfig,
    MaskingStrategy,
    OpenFraction,
    check_sum,
)

OBJECTIVES = ("mlm", "mpm")


@dataclass(frozen=True, kw_only=True)
class MaskedPositionConfig(MaskingConfig):
    """Options of the task mpm."""

    masking: MaskingStrategy = "span"
    """Which tokens are selected. span: runs of words as in SpanBERT and TACO; bernoulli: each
    independently; exact: an exact fraction; whole_word: all subwords of a word; electra: drawn with
    replacement, as for ELECTRA's generator."""
    objectives: str = field(default="mlm,mpm", metadata=OF_MODEL)
    """Objectives, separated by commas. mlm: masked tokens; mpm: masked positions."""
    position_rate: OpenFraction = 0.15
    """Fraction of positions to predict."""
    position_span_max: Size = 6
    """Maximum number of positions in a span."""
    position_span_p: OpenFraction = 0.2
    """Parameter of the geometric distribution of these spans' lengths."""
    hidden_position_rate: Fraction = 0.8
    """Fraction of the spans whose positions are hidden."""
    shuffled_position_rate: Fraction = 0.1
    """Fraction of the spans whose positions are shuffled; the rest remain."""
    position_range: Literal["sentence", "full_table"] = field(default="sentence", metadata=ADVANCED)
    """Range of the new position of a shuffled span of one. sentence: the positions of the sentence;
    full_table: 0 to max_position, as in the paper, beyond the end of most sentences."""
    max_position: PositiveInt = field(default=511, metadata=ADVANCED)
    """Highest position that position_range full_table draws; the architecture must have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.objective_names or set(self.objective_names) - set(OBJECTIVES):
            raise ToolkitError(
                f"task.objectives must be mlm, mpm or mlm,mpm, but is {self.objectives!r}."
            )
        rates = (self.hidden_position_rate, self.shuffled_position_rate)
        check_sum("hidden_position_rate and shuffled_position_rate", rates)

    @property
    def position_count(self) -> int:
        """Number of positions that can be predicted, for encoders without a table of them."""
        return (
            self.max_position + 1 if self.position_range == "full_table" else self.tokens_per_sample
        )

    @property
    def objective_names(self) -> list[str]:
        return [name.strip() for name in self.objectives.split(",") if name.strip()]
