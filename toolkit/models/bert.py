"""BERT (Devlin et al. 2019): the shared encoder with absolute positions and no kernels."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.registry import register_arch
from toolkit.models.encoder import Encoder, EncoderConfig
from toolkit.models.interface import Sizes
from toolkit.nn.attention import Attention, Content, LinearProjections, SoftmaxMap


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """The options of the shared encoder only."""


@register_arch("bert_tiny", BertConfig(layers=2, width=128, heads=2, embedding_width=64))
@register_arch("bert_small", BertConfig(width=256, heads=4, embedding_width=128))
@register_arch("bert", BertConfig())
def bert(c: BertConfig, sizes: Sizes) -> Encoder:
    """Scores are q_i . k_j / sqrt(K); only the position table encodes the order."""

    def attention() -> Attention:
        attention_map = SoftmaxMap(Content(c.head_width), dropout=c.attention_dropout)
        return Attention(c.width, LinearProjections(c.width, c.heads), attention_map)

    return Encoder(c, sizes, attention, absolute_positions=True, takes_positions=True)
