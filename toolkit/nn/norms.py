"""Norms by name."""

from __future__ import annotations

from typing import Literal

from toolkit.nn.ops.layer_norm import LayerNorm, RMSNorm

NormName = Literal["layer", "rms"]
NORM_EPS = 1e-12
"""Of the BERT family."""


def build_norm(name: NormName, width: int, eps: float = NORM_EPS) -> LayerNorm | RMSNorm:
    """LayerNorm (Ba et al. 2016), or RMSNorm (Zhang & Sennrich 2019)."""
    return LayerNorm(width, eps=eps) if name == "layer" else RMSNorm(width, eps)
