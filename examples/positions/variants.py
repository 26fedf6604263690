"""Encoders with different position information, small enough for a laptop.

Pass this folder as --user-dir; the architectures are order_none to order_taco_words.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit import register_arch
from toolkit.models.bert import BertConfig, bert
from toolkit.models.composite_bert import CompositeBertConfig, composite_bert
from toolkit.models.convbert import ConvBertConfig, convbert
from toolkit.models.taco import TacoConfig, taco

SHAPE = {"layers": 4, "width": 192, "heads": 3, "embedding_width": 128}
TERMS = ("none", "learned", "sinusoidal", "alibi", "rope", "t5", "xl", "deberta", "fixed")
for term in TERMS:
    register_arch(f"order_{term}", BertConfig(positions=[term], **SHAPE))(bert)

SHAW = BertConfig(positions=["shaw"], shaw_values=True, **SHAPE)
register_arch("order_shaw", SHAW)(bert)

COMPOSITE = CompositeBertConfig(**SHAPE)
register_arch("order_composite", COMPOSITE)(composite_bert)
register_arch("order_depthwise", replace(COMPOSITE, depthwise=True))(composite_bert)

CONVBERT = ConvBertConfig(**SHAPE | {"heads": 4}, max_positions=128)
register_arch("order_convbert", CONVBERT)(convbert)

TACO = TacoConfig(
    layers=4,
    word_width=162,
    position_width=30,
    word_heads=3,
    position_heads=2,
    relative_width=192,
    max_positions=128,
)
register_arch("order_taco", TACO)(taco)  # for task mpm
register_arch("order_taco_words", TACO)(taco)  # the same, for task mlm
