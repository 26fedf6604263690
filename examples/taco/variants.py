"""TACO, its ablation and BERT, small enough to train on a laptop in minutes.

Pass this folder as --user-dir; the architectures are taco_192, taco_192_summed and bert_192.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit import register_arch
from toolkit.models.bert import BertConfig, bert
from toolkit.models.taco import TacoConfig, taco

SMALL = TacoConfig(
    layers=4,
    word_width=162,
    position_width=30,
    word_heads=3,
    position_heads=2,
    relative_width=192,
    max_positions=128,
)
register_arch("taco_192", SMALL)(taco)
register_arch("taco_192_summed", replace(SMALL, attention_convolution=False))(taco)
register_arch("bert_192", BertConfig(layers=4, width=192, heads=3, hidden_position_embedding=True))(
    bert
)
