"""The five rows of Chang et al. 2021, Table 1, small enough to train on a laptop in minutes.

Pass this folder as --user-dir; the architectures are table1_none to table1_composite.
"""

from __future__ import annotations

from toolkit import register_arch
from toolkit.models.composite_bert import CompositeBertConfig, composite_bert

ROWS = {
    "none": {"absolute_positions": False, "fixed": False, "dynamic": False},
    "absolute": {"absolute_positions": True, "fixed": False, "dynamic": False},
    "fixed": {"absolute_positions": False, "fixed": True, "dynamic": False},
    "dynamic": {"absolute_positions": False, "fixed": False, "dynamic": True},
    "composite": {"absolute_positions": False, "fixed": True, "dynamic": True},
}

for row, parts in ROWS.items():
    config = CompositeBertConfig(layers=4, width=192, heads=3, embedding_width=128, **parts)
    register_arch(f"table1_{row}", config)(composite_bert)
