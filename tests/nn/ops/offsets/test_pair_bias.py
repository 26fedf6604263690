"""Biases by offset on a CPU, compared with plain loops."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from toolkit.nn.attention.offsets import Offsets
from toolkit.nn.ops.offsets.biases import read_pair_bias

B, H, S = 4, 2, 5


def make_positions(in_order: int) -> torch.Tensor:
    """Sentences in order, then others with repeated and hidden positions."""
    torch.manual_seed(in_order)
    positions = torch.randint(-1, 7, (B, S))
    positions[:in_order] = torch.arange(S)
    return positions


@pytest.mark.parametrize("in_order", [0, 1, 3, 4])
def test_biases_by_offset_and_their_gradient_equal_loops(in_order):
    positions = make_positions(in_order)
    offsets = Offsets(positions, S, positions.device)
    farthest = offsets.max_offset
    biases = torch.randn(H, 2 * farthest + 1, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(B, H, S, S, dtype=torch.float64)
    expected, of_biases = torch.zeros_like(gradient), torch.zeros_like(biases)
    for b, i, j in product(range(B), range(S), range(S)):
        offset = farthest + int(positions[b, j] - positions[b, i])
        expected[b, :, i, j] = biases.detach()[:, offset]
        of_biases[:, offset] += gradient[b, :, i, j]
    scores = read_pair_bias(biases, *offsets.pair_index, torch.float64)
    assert torch.equal(scores, expected)
    (actual,) = torch.autograd.grad(scores, biases, gradient)
    torch.testing.assert_close(actual, of_biases, atol=1e-12, rtol=1e-12)


def test_plain_positions_share_one_bias():
    offsets = Offsets(None, S, torch.device("cpu"))
    scores = read_pair_bias(torch.arange(2 * S - 1.0)[None], *offsets.pair_index, torch.float32)
    assert scores.shape == (1, 1, S, S)
    assert torch.equal(scores[0, 0], torch.arange(S) - torch.arange(S)[:, None] + S - 1.0)


def test_gradients_of_biases_in_bf16_are_summed_in_fp32():
    offsets = Offsets(torch.zeros(1, 400, dtype=torch.long), 400, torch.device("cpu"))
    biases = torch.zeros(1, 2 * offsets.max_offset + 1, requires_grad=True)
    read_pair_bias(biases, *offsets.pair_index, torch.bfloat16).sum().backward()
    assert biases.grad.sum() == 400 * 400  # in bf16 1 + 256 would stay 256
