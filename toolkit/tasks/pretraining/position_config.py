"""Options of the task mpm."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import require
from toolkit.tasks.pretraining.masking_config import MaskingConfig

OBJECTIVES = ("mlm", "mpm")
POSITION_RANGES = ("sentence", "table")


@dataclass(frozen=True, kw_only=True)
class MaskedPositionConfig(MaskingConfig):
    masking: str = "span"
    """Which tokens are hidden. span: SpanBERT's runs of words, as in TACO; bernoulli: each on its
    own; exact: an exact share; whole_word: all of a word's pieces; electra: as ELECTRA does."""
    objectives: str = "mlm,mpm"
    """What is learned, separated by commas. mlm: hidden tokens; mpm: hidden positions."""
    position_rate: float = 0.15
    """Share of positions to predict, 0 to 1."""
    position_span_max: int = 6
    """Longest run of positions that is chosen at a time."""
    position_span_p: float = 0.2
    """Parameter of the geometric law of these runs' lengths."""
    hidden_position_rate: float = 0.8
    """Share of the runs whose positions are hidden."""
    shuffled_position_rate: float = 0.1
    """Share of the runs whose positions are put in another order; the rest is shown as it is."""
    position_range: str = "sentence"
    """Where the position shown for a shuffled run of one comes from. sentence: any of the
    sentence's; table: any of 0 to max_position, as in the paper, far outside most sentences."""
    max_position: int = 511
    """Highest position that position_range table draws; the architecture must have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.objective_names if name not in OBJECTIVES]
        require(
            bool(self.objective_names) and not unknown,
            f"task.objectives must name mlm, mpm or both, but is {self.objectives!r}.",
        )
        for name in ("position_rate", "position_span_p"):
            value = getattr(self, name)
            require(0 < value < 1, f"task.{name} must lie between 0 and 1, but is {value}.")
        for name in ("position_span_max", "max_position"):
            value = getattr(self, name)
            require(value > 0, f"task.{name} must be at least 1, but is {value}.")
        shown = (self.hidden_position_rate, self.shuffled_position_rate)
        require(
            min(shown) >= 0 and sum(shown) <= 1,
            f"task.hidden_position_rate and shuffled_position_rate must be shares that sum to at "
            f"most 1, but are {shown[0]} and {shown[1]}.",
        )
        require(
            self.position_range in POSITION_RANGES,
            f"task.position_range must be one of {', '.join(POSITION_RANGES)}, but is "
            f"{self.position_range!r}.",
        )

    @property
    def objective_names(self) -> list[str]:
        return [name.strip() for name in self.objectives.split(",") if name.strip()]
