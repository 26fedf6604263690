"""Attention whose scores depend on clipped offsets between positions, as one operation on a GPU.

out_i = sum_j dropout(softmax_j(scale q_i . k_j + bias_r + q_i . query_r + k_j . key_r')) v_j
with r = clip(p_j - p_i, -radius, radius) + radius and r' = R - 1 - r (Shaw et al. 2018, eq. 4;
Raffel et al. 2020, section 2.1; He et al. 2021, eq. 4), over the positions j of i's sentence.

N rows of all sentences   B sentences   H heads   K head width   R offsets, 2 * radius + 1
P parts: queries, keys, values, and others that are not read

Sentences are ranges of rows, so padding takes neither time nor memory, and no score is written to
memory. The plain form is `attention.attend` with the scores of `scatter_to_diagonals` as its bias.
"""

from toolkit.nn.ops.relative_attention.inputs import (
    MAX_TAPS,
    OffsetTables,
    SentenceRows,
    add_tables,
)
from toolkit.nn.ops.relative_attention.operation import kernel_runs, relative_attention

__all__ = [
    "MAX_TAPS",
    "OffsetTables",
    "SentenceRows",
    "add_tables",
    "kernel_runs",
    "relative_attention",
]
