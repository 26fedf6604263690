"""Options of the task pos_tagging, and how they are suited to an architecture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from toolkit.config.sections import require
from toolkit.tasks.capabilities import HasMaxLength

DEFAULT_TOKENS = 512
"""Tokens that are read at once by an architecture that sets no limit."""


@runtime_checkable
class HasFixedLength(Protocol):
    """The config of an architecture that reads whole words, always so many of them."""

    fixed_length: int


@runtime_checkable
class HasMaxPositions(Protocol):
    """The config of an architecture with a table of positions."""

    max_positions: int | None


def max_input_length(arch: Any) -> int | None:
    """Tokens that an architecture reads at once, by its config or the encoder itself; None: any."""
    if isinstance(arch, HasMaxLength):
        return arch.max_length
    return arch.max_positions if isinstance(arch, HasMaxPositions) else None


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
    """The same for one architecture: tokens_per_sample is above 0."""

    fixed_length: int = 0
    """Places that every chunk is filled up to; 0 for those of the longest in its batch."""


def resolve_tagging(c: PosTaggingConfig, arch: Any) -> ResolvedTaggingConfig:
    """With the lengths that an architecture reads, by its config or the encoder itself."""
    fixed = arch.fixed_length if isinstance(arch, HasFixedLength) else 0
    limit = fixed or max_input_length(arch) or DEFAULT_TOKENS
    require(
        c.tokens_per_sample <= limit,
        f"task.tokens_per_sample must be at most what the architecture reads at once, {limit}, but "
        f"is {c.tokens_per_sample}. Lower it, or raise the architecture's "
        f"{'fixed_length' if fixed else 'max_positions'}.",
    )
    given = {**asdict(c), "tokens_per_sample": c.tokens_per_sample or limit}
    return ResolvedTaggingConfig(**{**given, "fixed_length": fixed})
