"""Options of the task multiple_choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from toolkit.config.declared import OF_MODEL, AtLeast, Rate
from toolkit.models.heads import HeadKind
from toolkit.tasks.feature_options import FeatureOptions


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(FeatureOptions, section="task"):
    """Options of the task multiple_choice."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What an option's score is computed from. pooled: tanh of a linear map of the first token's
    last state, as in BERT; plain: that state itself; gelu: like pooled with
    gelu in place of tanh, as in ELECTRA of Transformers. TACO's state concatenates its streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(8, or_zero=True)] = 0
    """Maximum number of tokens of a passage with one option, special tokens included; longer pairs
    are truncated token by token at the end of the longer text. 0 for 512, or the architecture's
    maximum if less."""
