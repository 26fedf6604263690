"""BERT (Devlin et al. 2019): the shared encoder, by default with a table of positions."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.registry import register_arch
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Sizes
from toolkit.models.positions import PositionConfig, build_attention, build_encoder


@dataclass(frozen=True, kw_only=True)
class BertConfig(PositionConfig):
    """The options of the shared encoder and of its position terms only."""


@register_arch("bert_tiny", BertConfig(layers=2, width=128, heads=2, embedding_width=64))
@register_arch("bert_small", BertConfig(width=256, heads=4, embedding_width=128))
@register_arch("bert", BertConfig())
def bert(c: BertConfig, sizes: Sizes) -> Encoder:
    """Scores are q_i . k_j / sqrt(K), and the position terms that are chosen by name."""
    return build_encoder(c, sizes, lambda: build_attention(c))
