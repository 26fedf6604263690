"""Attention with learned taps as an operation for tracers; tests/gpu compares the numbers."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from toolkit.nn.ops.kernel_inputs import OffsetTables, SentenceRows, tile_size
from toolkit.nn.ops.relative_attention import (
    forward_flops,
    has_shared_memory,
    kernel_runs,
    relative_attention,
)
from toolkit.training.flop_counter import FlopCounter


def trace(dtype=torch.bfloat16, **tables):
    """Output and gradients of tensors without numbers: 12 rows, 4 parts, 2 heads of width 8."""
    qkv = torch.randn(12, 4, 2, 8).to(dtype).requires_grad_()
    rows = SentenceRows(*torch.zeros(2, 3, dtype=torch.int32), 5)
    made = {name: torch.randn(shape, requires_grad=True) for name, shape in tables.items()}
    inputs = [qkv, *made.values()]
    out = relative_attention(qkv, OffsetTables(**made), rows, scale=0.5, dropout=0.1)
    return inputs, out, torch.autograd.grad(out.sum(), inputs)


@pytest.mark.parametrize(
    "tables",
    [{}, {"bias": (2, 7)}, {"bias": (2, 7), "query": (2, 8, 7), "key": (1, 8, 7)}],
    ids=lambda tables: "+".join(tables) or "none",
)
def test_gradients_have_the_shapes_and_dtypes_of_their_inputs(tables):
    with FakeTensorMode():
        inputs, out, gradients = trace(**tables)
    assert (out.shape, out.dtype) == ((12, 2, 8), torch.bfloat16)
    for tensor, gradient in zip(inputs, gradients, strict=True):
        assert (gradient.shape, gradient.dtype) == (tensor.shape, tensor.dtype)


def test_tables_are_padded_to_a_power_of_two_of_at_least_sixteen():
    sizes = [tile_size(OffsetTables(bias=torch.zeros(1, r)).offsets) for r in (1, 15, 17, 33, 63)]
    assert sizes == [16, 16, 32, 64, 64]


def test_kernel_runs_on_cuda_for_heads_of_up_to_128_channels():
    pytest.importorskip("triton")
    assert kernel_runs(torch.device("cuda"), torch.float32, 128)
    assert not kernel_runs(torch.device("cuda"), torch.float32, 129)
    assert not kernel_runs(torch.device("cuda"), torch.float64, 64)
    assert not kernel_runs(torch.device("cpu"), torch.float32, 64)


@pytest.mark.parametrize(("capability", "runs"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_kernel_does_not_run_on_gpus_without_enough_shared_memory(capability, runs, monkeypatch):
    pytest.importorskip("triton")
    has_shared_memory.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert kernel_runs(torch.device("cuda", 7), torch.float32, 64) == runs
    has_shared_memory.cache_clear()


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
