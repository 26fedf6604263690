"""Options of the task translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolkit.config.declared import AtLeast, NonNegativeInt, Options


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(Options, section="task"):
    """Options of the task translation."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens on either side, end symbol included; 0 for the architecture's
    maximum."""
    overlength: Literal["error", "skip", "truncate"] = "error"
    """How to handle longer pairs. error: stop; skip: omit them from training and truncate them in
    validation, where every pair counts; truncate: always truncate them."""
    validation_beam: NonNegativeInt = 1
    """Beam size for the translations that validation scores with BLEU and chrF; 1 is greedy search,
    0 disables them."""
