"""Options of the task pos_tagging."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from toolkit.config.sections import require
from toolkit.models.interface import ArchConfig, EncoderModel
from toolkit.tasks.capabilities import max_input_length

DEFAULT_TOKENS = 512
"""tokens_per_sample for architectures without a maximum length."""


@dataclass(frozen=True, kw_only=True)
class PosTaggingConfig:
    pooling: str = "first"
    """Which of a word's pieces its tag is predicted from. first: its first piece; mean: the mean of
    all."""
    tokens_per_sample: int = 0
    """Most tokens that are read at once, special symbols included; longer sentences are cut into
    chunks, and every word is still tagged. 0 for as many as the architecture takes."""

    def __post_init__(self) -> None:
        require(
            self.pooling in ("first", "mean"),
            f"task.pooling must be first or mean, but is {self.pooling!r}.",
        )
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 2,
            f"task.tokens_per_sample must be at least 3, or 0 for the architecture's own, but is "
            f"{self.tokens_per_sample}.",
        )


@dataclass(frozen=True, kw_only=True)
class ResolvedTaggingConfig(PosTaggingConfig):
    """The options for one architecture: tokens_per_sample is above 0."""

    fixed_length: int = 0
    """Length that every chunk is padded to; 0 for that of the longest in its batch."""


def resolve_tagging(c: PosTaggingConfig, arch: ArchConfig | EncoderModel) -> ResolvedTaggingConfig:
    """Resolve the lengths for an architecture's config or an encoder."""
    fixed = arch.fixed_length or 0
    limit = fixed or max_input_length(arch) or DEFAULT_TOKENS
    require(
        c.tokens_per_sample <= limit,
        f"task.tokens_per_sample must be at most the architecture's maximum length, {limit}, but "
        f"is {c.tokens_per_sample}. Lower it, or raise the architecture's "
        f"{'fixed_length' if fixed else 'max_positions'}.",
    )
    options = {**asdict(c), "tokens_per_sample": c.tokens_per_sample or limit}
    return ResolvedTaggingConfig(**{**options, "fixed_length": fixed})
