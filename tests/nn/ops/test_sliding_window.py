"""Attention within a window against attention over the allowed keys only."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from toolkit.nn.attention import AttentionInputs, Content, Offsets, SequenceContext, SoftmaxMap
from toolkit.nn.ops import attention as banded

HIDDEN = -1


def attend_in_window(p: AttentionInputs, ids: Tensor, radius: int) -> Tensor:
    """Softmax over the keys whose position ids are near, one query after another."""
    out = torch.zeros_like(p.q)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in p.q.shape[:3])).tolist():
        padding = p.sequence.padding
        keys = [
            j
            for j in range(p.k.shape[2])
            if abs(int(ids[b, j] - ids[b, i])) <= radius and (padding is None or not padding[b, j])
        ]
        if keys:
            scores = torch.stack([p.q[b, h, i] @ p.k[b, h, j] for j in keys])
            weights = (scores / math.sqrt(p.q.shape[3])).softmax(0)
            out[b, h, i] = weights @ p.v[b, h, keys]
    return out


def inputs(
    length: int, ids: Tensor | None = None, padding: Tensor | None = None
) -> AttentionInputs:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, length, 4, dtype=torch.float64).requires_grad_()
    sequence = SequenceContext(Offsets(ids, length, q.device), padding)
    return AttentionInputs(q, k, v, q[:, 0], sequence)


def local_map(radius: int) -> SoftmaxMap:
    local = SoftmaxMap(Content(4))
    local.window_radius = radius
    return local


@pytest.mark.parametrize("hidden", [False, True])
def test_window_is_counted_in_position_ids(hidden):
    ids = torch.stack([torch.randperm(9), torch.arange(9)])
    if hidden:
        ids[:, 2:5] = HIDDEN
    padding = torch.arange(9).expand(2, 9) >= torch.tensor([[9], [7]])
    p, local = inputs(9, ids, padding), local_map(2)
    real = ~padding[:, None, :, None]
    expected = attend_in_window(p, ids, 2)
    torch.testing.assert_close(local.average(p) * real, expected * real, atol=1e-9, rtol=0)
    torch.testing.assert_close((local(p) @ p.v) * real, expected * real, atol=1e-9, rtol=0)


@pytest.mark.parametrize("length", [20, 22])
@pytest.mark.parametrize("padded", [False, True])
def test_blocks_equal_the_mask_and_have_its_gradients(length, padded, monkeypatch):
    padding = torch.arange(length).expand(2, length) >= torch.tensor([[length], [length - 5]])
    p = inputs(length, padding=padding if padded else None)
    local, results = local_map(3), []
    monkeypatch.setattr(banded, "MIN_BLOCK", 4)
    for blocks in (100, banded.MIN_BLOCKS):
        monkeypatch.setattr(banded, "MIN_BLOCKS", blocks)
        assert local.uses_blocks(p, 3) is (blocks < 100)
        average = local.average(p)
        real = average[0].sin().sum() + average[1, :, : length - 5].sin().sum()
        results.append([average[0], *torch.autograd.grad(real, (p.q, p.k, p.v))])
    expected = attend_in_window(p, torch.arange(length).expand(2, -1), 3)
    torch.testing.assert_close(results[1][0], expected[0], atol=1e-9, rtol=0)
    torch.testing.assert_close(*results, atol=1e-12, rtol=1e-9)


def test_blocks_drop_weights_like_the_mask(monkeypatch):
    monkeypatch.setattr(banded, "MIN_BLOCK", 4)
    p, local = inputs(400), local_map(6)
    local.dropout.rate = 0.4
    p = p._replace(v=torch.ones_like(p.v))
    assert local.uses_blocks(p, 6)
    averages = local.average(p)
    assert averages.mean().item() == pytest.approx(1, abs=0.05) and averages.std() > 0.1
    kept = averages.detach().eq(0).double().mean().item()
    assert kept < 0.01
