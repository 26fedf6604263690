"""Options of the task pos_tagging."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Literal

from toolkit.config.declared import OF_MODEL, AtLeast
from toolkit.models.interface import ArchConfig, EncoderModel
from toolkit.tasks.capabilities import resolve_length
from toolkit.tasks.feature_options import FeatureOptions

DEFAULT_TOKENS = 512
"""tokens_per_sample for architectures without a maximum length."""


@dataclass(frozen=True, kw_only=True)
class PosTaggingConfig(FeatureOptions, section="task"):
    """Options of the task pos_tagging."""

    pooling: Literal["first", "mean"] = field(default="first", metadata=OF_MODEL)
    """State from which a word's tag is predicted. first: that of its first subword; mean: the mean
    over its subwords."""
    tokens_per_sample: Annotated[int, AtLeast(3, or_zero=True)] = 0
    """Maximum number of tokens read at once, special tokens included; longer sentences are split
    into chunks, and every word is still tagged. 0 for the architecture's maximum."""


@dataclass(frozen=True, kw_only=True)
class ResolvedTaggingConfig(PosTaggingConfig):
    """The options for one architecture: tokens_per_sample is above 0."""

    fixed_length: int = 0
    """Length that every chunk is padded to; 0 for that of the longest in its batch."""


def resolve_tagging(c: PosTaggingConfig, arch: ArchConfig | EncoderModel) -> ResolvedTaggingConfig:
    """Resolve the lengths for an architecture's config or an encoder."""
    tokens = resolve_length(c, arch).tokens_per_sample or DEFAULT_TOKENS
    lengths = {"tokens_per_sample": tokens, "fixed_length": arch.fixed_length or 0}
    return ResolvedTaggingConfig(**{**asdict(c), **lengths})
