"""DeBERTa (He et al. 2021) as its second and third version have it: disentangled attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from toolkit.common.registry import register_arch
from toolkit.config.declared import Above, Below, NonNegativeInt
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes
from toolkit.models.positions import (
    PositionConfig,
    build_attention,
    build_encoder,
)


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(PositionConfig):
    """The options of the shared encoder, with DeBERTa's defaults."""

    positions: list[str] = field(default_factory=lambda: ["deberta"])
    """How the order of tokens enters; several are added. deberta: content-to-position and
    position-to-content products; the others as in bert."""
    token_types: NonNegativeInt = 0
    """Rows of the token type table; 0 disables it."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = 1e-7
    """Epsilon of the layer norms."""


@register_arch("deberta_tiny", DebertaConfig(layers=2, width=128, heads=2))
@register_arch("deberta_small", DebertaConfig(width=256, heads=4))
@register_arch("deberta", DebertaConfig())
def deberta(c: DebertaConfig, sizes: Sizes) -> Encoder:
    """Scores are (q_i . k_j + q_i . k^r_{i-j} + k_j . q^r_{i-j}) / sqrt(3 K) (eq. 4).

    deberta_small and deberta_tiny have the layers of bert_small and bert_tiny, but embeddings of
    the model's width, as all published models have. The paper's absolute positions before the
    output layer (section 3.2) are left out, as in Transformers.
    """
    return build_encoder(c, sizes, lambda: build_attention(c))
