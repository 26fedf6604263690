"""Options of the tasks that fine-tune an encoder."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.declared import Options


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    layer_mixing: bool = False
    """Feed the head a learned weighted average of the states of all layers and of the embeddings,
    times a learned scale, instead of the last layer's states (Peters et al. 2018)."""
