"""Options of the task language_modeling."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import check_choice, require
from toolkit.data.samples.language_model_blocks import EOS_AFTER, SAMPLE_MODES

DEFAULT_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig:
    tokens_per_sample: int = 0
    """Most tokens of one sample, end symbols included: the model sees no further back. 0 for 512,
    or what the architecture takes if that is less."""
    sample_mode: str = "blocks"
    """What makes one sample. blocks: a piece of the running text, whatever it cuts; documents: the
    same, but never across two documents; items: an item, such as a line, or a piece of one."""
    eos_after: str = "items"
    """What an end symbol stands behind, which is told like the others: items or documents."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 1,
            f"task.tokens_per_sample must be at least 2, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )
        check_choice("task.sample_mode", self.sample_mode, SAMPLE_MODES)
        check_choice("task.eos_after", self.eos_after, EOS_AFTER)
        require(
            self.sample_mode != "items" or self.eos_after == "items",
            "task.eos_after must be items where samples are, but is documents. Leave it out.",
        )
