"""Options of the task glue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from toolkit.config.declared import OF_MODEL, AtLeast, Rate
from toolkit.models.heads import HeadKind
from toolkit.tasks.feature_options import FeatureOptions


@dataclass(frozen=True, kw_only=True)
class GlueConfig(FeatureOptions, section="task"):
    """Options of the task glue."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What the label is predicted from. pooled: tanh of a linear map of the first token's last
    state, as in BERT and Chang et al. 2021; plain: that state itself, as in ConvBERT; gelu: like
    pooled with gelu in place of tanh, as in the ELECTRA and ConvBERT classifiers of Transformers.
    TACO's state concatenates its token and position streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(5, or_zero=True)] = 0
    """Maximum number of tokens per text or pair, special tokens included; longer ones are truncated
    token by token at the end of the longer text. 0 for 128, or the architecture's
    maximum if less."""
