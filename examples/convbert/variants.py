"""ConvBERT, small enough to train on a laptop in minutes.

Pass this folder as --user-dir; the architecture is convbert_192.
"""

from __future__ import annotations

from toolkit import register_arch
from toolkit.models.convbert import ConvBertConfig, convbert

SMALL = ConvBertConfig(layers=4, width=192, heads=4, embedding_width=128, max_positions=128)
register_arch("convbert_192", SMALL)(convbert)
