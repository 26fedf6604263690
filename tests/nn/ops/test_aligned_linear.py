"""Padding the classes of a product changes its shape in memory and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops import linear as module
from toolkit.nn.ops.linear import aligned_linear, pad_classes


@pytest.fixture(autouse=True)
def multiple(monkeypatch):
    monkeypatch.setitem(module.CLASSES_MULTIPLE, "cpu", 8)


def operands(rows=40, classes=11, bias=True):
    torch.manual_seed(0)
    sizes = ((rows, 6), (classes, 6), (classes,))
    tensors = [torch.randn(size, requires_grad=True) for size in sizes]
    return tensors if bias else [*tensors[:2], None]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("autocast", [True, False])
def test_aligned_linear_and_its_gradients_equal_those_of_a_linear_map(bias, autocast):
    tensors = operands(bias=bias)
    learned = [t for t in tensors if t is not None]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found, expected = aligned_linear(*tensors), F.linear(*tensors)
    assert found.stride() == (16, 1) and found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)
    gradients = (
        torch.autograd.grad(out.float().square().sum(), learned) for out in (found, expected)
    )
    for pair in zip(*gradients, strict=True):
        torch.testing.assert_close(*pair)


@pytest.mark.parametrize("rows, classes", [(40, 16), (31, 11)])
def test_aligned_tables_and_those_of_few_rows_are_not_padded(rows, classes):
    tensors = operands(rows, classes)
    for found, given in zip(pad_classes(*tensors), tensors, strict=True):
        assert found is given


def test_a_cpu_computes_the_classes_there_are(monkeypatch):
    monkeypatch.delitem(module.CLASSES_MULTIPLE, "cpu")
    assert aligned_linear(*operands()).is_contiguous()
