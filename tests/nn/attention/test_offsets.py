from __future__ import annotations

import pytest
import torch

from toolkit.nn.attention.inputs import Offsets, scatter_to_diagonals
from toolkit.nn.ops.offsets.taps import skew, skew_by_views, sum_by_products, sum_scores

B, H, S, RADIUS = 2, 3, 6, 2


def by_loops(taps: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    scores, radius = torch.empty(B, H, S, S, dtype=taps.dtype), taps.shape[-1] // 2
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, (B, H, S, S))).tolist():
        offset = int(positions[b, j] - positions[b, i])
        scores[b, h, i, j] = taps[b, h, i, max(-radius, min(radius, offset)) + radius]
    return scores


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize(("explicit", "radius"), [(False, 2), (False, 8), (True, 2)])
def test_diagonals_and_their_gradient_equal_loops(monkeypatch, explicit, radius, compiling):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    positions = torch.stack([torch.randperm(S) for _ in range(B)])
    if not explicit:
        positions = torch.arange(S).expand(B, S)
    offsets = Offsets(positions if explicit else None, S, torch.device("cpu"))
    taps = torch.randn(B, H, S, 2 * radius + 1, dtype=torch.float64, requires_grad=True)
    scores, reference = scatter_to_diagonals(taps, offsets), by_loops(taps, positions)
    assert torch.equal(scores, reference)
    weight = torch.randn_like(scores)
    gradients = [torch.autograd.grad((y * weight).sum(), taps)[0] for y in (scores, reference)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("in_order", [0, 1, 2])
def test_scatter_to_diagonals_uses_the_positions_of_each_sentence(in_order):
    positions = torch.tensor([[0, -1, 2], [1, 0, -1]])
    positions[:in_order] = torch.arange(3)
    taps = torch.randn(1, H, 1, 11, requires_grad=True)
    offsets = Offsets(positions, 3, torch.device("cpu"))
    scores = scatter_to_diagonals(taps.expand(-1, -1, 3, -1), offsets)
    index = 5 + positions[:, None] - positions[..., None]
    reference = taps[0, :, 0][:, index].transpose(0, 1)
    assert torch.equal(scores.expand_as(reference), reference)
    weight = torch.randn_like(reference)
    gradients = [torch.autograd.grad((y * weight).sum(), taps)[0] for y in (scores, reference)]
    torch.testing.assert_close(*gradients)


def test_skew_by_views_equals_skew_and_its_gradient_bit_for_bit():
    torch.manual_seed(0)
    taps = torch.randn(B, H, S, 2 * S + 1, requires_grad=True)
    gradient = torch.randn(B, H, S, S)
    views, strides = skew_by_views(taps), skew(taps)
    assert torch.equal(views, strides)
    assert torch.equal(*(torch.autograd.grad(y, taps, gradient)[0] for y in (views, strides)))


def test_sums_by_products_equal_sums_one_by_one():
    torch.manual_seed(0)
    scores, index = torch.randn(B, H, S, S), torch.randint(2 * RADIUS + 1, (B, S, S))
    for at_once in (0, B):
        sums = sum_by_products(scores, index, RADIUS, at_once)
        torch.testing.assert_close(sums, sum_scores(scores, index, RADIUS))
