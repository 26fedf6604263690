"""Options of the task rtd."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import require
from toolkit.tasks.pretraining.masking_config import MaskingConfig


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig(MaskingConfig):
    masking: str = "electra"
    """Which tokens the generator fills in. electra: drawn with replacement, as in ELECTRA; exact:
    an exact share; bernoulli: each on its own; whole_word: all of a word's pieces; span: runs."""
    generator_size: float = 0.25
    """The generator's widths and heads as a share of the model's, above 0 up to 1; one head at
    least. The paper has 0.25 for small models and 0.3333 for base."""
    discriminator_weight: float = 50.0
    """Factor of the loss of finding replaced tokens; that of filling in is 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            0 < self.generator_size <= 1,
            f"task.generator_size must lie above 0 and be at most 1, but is {self.generator_size}.",
        )
        require(
            self.discriminator_weight > 0,
            f"task.discriminator_weight must be positive, but is {self.discriminator_weight}. For "
            "filling "
            f"in alone use --task mlm.",
        )
