"""Options of the task language_modeling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolkit.config.declared import AtLeast, Options


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig(Options, section="task"):
    """Options of the task language_modeling."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens per sample, end symbols included: the length of the context. 0 for
    512, or the architecture's maximum if less."""
    sample_mode: Literal["blocks", "documents", "items"] = "blocks"
    """Unit of one sample. blocks: running text of this length, across all boundaries; documents:
    the same within one document; items: an item, such as a line, or a part of one."""
    eos_after: Literal["items", "documents"] = "items"
    """What an end symbol follows; it is predicted like other tokens. With sample_mode items, always
    items."""
