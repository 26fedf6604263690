from __future__ import annotations

import pytest
import torch

from toolkit.nn.attention.offsets import Offsets, scatter_to_diagonals

B, H, S, RADIUS = 2, 3, 6, 2


def expected(taps: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    laid = torch.empty(B, H, S, S, dtype=taps.dtype)
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, (B, H, S, S))).tolist():
        offset = int(positions[b, j] - positions[b, i])
        laid[b, h, i, j] = taps[b, h, i, max(-RADIUS, min(RADIUS, offset)) + RADIUS]
    return laid


@pytest.mark.parametrize("spelled_out", [False, True])
def test_taps_are_laid_along_the_diagonals_and_gathered_back(spelled_out):
    positions = torch.stack([torch.randperm(S) for _ in range(B)])
    if not spelled_out:
        positions = torch.arange(S).expand(B, S)
    offsets = Offsets(positions if spelled_out else None, S, torch.device("cpu"))
    taps = torch.randn(B, H, S, 2 * RADIUS + 1, dtype=torch.float64, requires_grad=True)
    laid, want = scatter_to_diagonals(taps, offsets), expected(taps, positions)
    assert torch.equal(laid, want)
    weight = torch.randn_like(laid)
    got = torch.autograd.grad((laid * weight).sum(), taps)[0]
    torch.testing.assert_close(got, torch.autograd.grad((want * weight).sum(), taps)[0])


@pytest.mark.parametrize("in_order", [0, 1, 2])
def test_taps_of_all_sentences_are_laid_by_the_positions_of_each(in_order):
    positions = torch.tensor([[0, -1, 2], [1, 0, -1]])
    positions[:in_order] = torch.arange(3)
    taps = torch.randn(1, H, 1, 11, requires_grad=True)
    offsets = Offsets(positions, 3, torch.device("cpu"))
    laid = scatter_to_diagonals(taps.expand(-1, -1, 3, -1), offsets)
    index = 5 + positions[:, None] - positions[..., None]
    want = taps[0, :, 0][:, index].transpose(0, 1)
    assert torch.equal(laid.expand_as(want), want)
    weight = torch.randn_like(want)
    got = torch.autograd.grad((laid * weight).sum(), taps)[0]
    torch.testing.assert_close(got, torch.autograd.grad((want * weight).sum(), taps)[0])


def test_a_table_made_in_inference_serves_training_afterwards():
    offsets = Offsets(None, 11, torch.device("cpu"))
    with torch.inference_mode():
        scatter_to_diagonals(torch.randn(1, 1, 11, 5), offsets)
    taps = torch.randn(1, 1, 11, 5, requires_grad=True)
    scatter_to_diagonals(taps, offsets).sum().backward()
    assert taps.grad.sum() == 11 * 11
