"""Options of the task translation."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import check_choice, require

OVERLENGTH_MODES = ("error", "skip", "truncate")


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    tokens_per_sample: int = 0
    """Most tokens of a sentence on either side, its end symbol included; 0 for as many as the
    architecture takes."""
    overlength: str = "error"
    """What becomes of a pair with more. error: the run ends. skip: it is left out of training, and
    cut where it is validated, since every pair counts there. truncate: its tail is cut off."""
    validation_beam: int = 1
    """Hypotheses that are followed while the validation text is translated for BLEU and chrF; 1
    takes the most probable symbol at each place, 0 translates nothing."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 1,
            f"task.tokens_per_sample must be at least 2, or 0 for the architecture's own, but is "
            f"{self.tokens_per_sample}.",
        )
        check_choice("task.overlength", self.overlength, OVERLENGTH_MODES)
        require(
            self.validation_beam >= 0,
            f"task.validation_beam must not be negative, but is {self.validation_beam}.",
        )
