"""FLOPs of attention with learned taps equal those of its products."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from toolkit.nn.ops.relative_attention import OffsetTables, SentenceRows, relative_attention
from toolkit.nn.ops.relative_attention.flops import forward_flops
from toolkit.training.flop_counter import FlopCounter

SENTENCES, LENGTH, HEADS, WIDTH, TAPS = 3, 8, 2, 4, 5
ROWS = SENTENCES * LENGTH
PRODUCT = 2 * SENTENCES * LENGTH * LENGTH * HEADS * WIDTH
"""Of queries and keys; of weights and values."""
TABLE = 2 * ROWS * HEADS * WIDTH * TAPS
PADDED_TABLE = 2 * ROWS * HEADS * WIDTH * 16
"""Of the gradient of a table, whose taps are padded."""


@pytest.mark.parametrize("names", [(), ("bias",), ("query",), ("query", "key")], ids=str)
def test_forward_counts_two_products_and_one_per_table_and_backward_twice_that(names):
    with FakeTensorMode(), FlopCounter() as counted:
        shapes = {"bias": (HEADS, TAPS), "query": (1, WIDTH, TAPS), "key": (HEADS, WIDTH, TAPS)}
        tables = {name: torch.ones(shapes[name], requires_grad=True) for name in names}
        qkv = torch.ones(ROWS, 3, HEADS, WIDTH, requires_grad=True)
        starts = torch.zeros(SENTENCES, dtype=torch.int32)
        rows = SentenceRows(starts, starts + LENGTH, LENGTH)
        out = relative_attention(qkv, OffsetTables(**tables), rows, scale=0.5, dropout=0.0)
        forward = counted.total
        out.sum().backward()
    read = len({"query", "key"} & set(names))
    assert forward == 2 * PRODUCT + read * TABLE
    assert counted.total - forward == 4 * PRODUCT + read * (TABLE + PADDED_TABLE)


def test_products_of_short_sentences_count_for_their_own_length():
    qkv, lengths = torch.ones(7, 3, HEADS, WIDTH), torch.tensor([2, 5], dtype=torch.int32)
    found = forward_flops(qkv, None, None, None, lengths - 2, lengths, None, None, 5)
    assert found == 2 * 2 * (2 * 2 + 5 * 5) * HEADS * WIDTH
