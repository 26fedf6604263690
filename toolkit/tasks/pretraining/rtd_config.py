"""Options of the task rtd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from toolkit.config.declared import OF_MODEL, Above, AtMost, PositiveFloat
from toolkit.tasks.pretraining.masking_config import MaskingConfig, MaskingStrategy


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig(MaskingConfig):
    """Options of the task rtd."""

    masking: MaskingStrategy = "electra"
    """Which tokens the generator predicts. electra: drawn with replacement, as in ELECTRA; exact:
    an exact fraction; bernoulli: each independently; whole_word: all subwords of a word; span: runs
    of words."""
    generator_size: Annotated[float, Above(0), AtMost(1)] = field(default=0.25, metadata=OF_MODEL)
    """The generator's widths and heads as a fraction of the model's, at least one head. The paper
    uses 0.25 for small models and 0.3333 for base."""
    discriminator_weight: PositiveFloat = field(default=50.0, metadata=OF_MODEL)
    """Weight of the discriminator's loss; the generator's is 1."""
