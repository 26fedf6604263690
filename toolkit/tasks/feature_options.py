"""Options of the tasks that fine-tune an encoder."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.declared import OF_MODEL, Options


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    """Options of every task that reads features from an encoder."""

    layer_mixing: bool = field(default=False, metadata=OF_MODEL)
    """Feed the head a learned weighted average of the states of all layers and of the embeddings,
    times a learned scale, instead of the last layer's states (Peters et al. 2018)."""
