"""Reading of taps by clipped offset and sums of scores on a CPU, compared with plain loops."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from toolkit.nn.attention.inputs import Offsets, scatter_to_diagonals, sum_by_offset

B, H, S = 3, 2, 6
POSITIONS = {
    "in order": None,
    "ids in order": [[0, 1, 2, 3, 4, 5]] * B,
    "permuted": [[0, 1, 2, 3, 4, 5], [5, 2, 0, 1, 4, 3], [3, 4, 1, 0, 5, 2]],
    "hidden": [[0, 1, 2, 3, 4, 5], [0, -1, 2, -1, -1, 5], [-1, 1, -1, 3, 4, 5]],
    "repeated": [[7, 7, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1], [0, 9, 0, 9, 1, 1]],
    "far apart": [[0, 2**40, 1, 2**40 + 1, 5, 5], [0, 1, 2, 3, 4, 5], [9, 8, 7, 6, 5, 4]],
}


def make_offsets(name: str) -> tuple[Offsets, torch.Tensor]:
    """Offsets and the position ids of all sentences."""
    ids = None if POSITIONS[name] is None else torch.tensor(POSITIONS[name])
    positions = torch.arange(S).expand(B, S) if ids is None else ids
    return Offsets(ids, S, torch.device("cpu")), positions


def list_pairs(positions: torch.Tensor, radius: int):
    """Sentence, query, key and tap of all pairs."""
    for b, i, j in product(range(B), range(S), range(S)):
        offset = int(positions[b, j] - positions[b, i])
        yield b, i, j, max(-radius, min(radius, offset)) + radius


@pytest.mark.parametrize("radius", [1, 2, 3, 8])
@pytest.mark.parametrize("name", POSITIONS)
def test_reading_of_taps_and_its_gradient_equal_loops(name, radius):
    torch.manual_seed(0)
    offsets, positions = make_offsets(name)
    taps = torch.randn(B, H, S, 2 * radius + 1, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(B, H, S, S, dtype=torch.float64)
    expected, of_taps = torch.zeros_like(gradient), torch.zeros_like(taps)
    for b, i, j, tap in list_pairs(positions, radius):
        expected[b, :, i, j] = taps.detach()[b, :, i, tap]
        of_taps[b, :, i, tap] += gradient[b, :, i, j]
    scores = scatter_to_diagonals(taps, offsets)
    assert torch.equal(scores, expected)
    (actual,) = torch.autograd.grad(scores, taps, gradient)
    torch.testing.assert_close(actual, of_taps, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("radius", [1, 2, 3, 8])
@pytest.mark.parametrize("name", POSITIONS)
def test_sums_by_offset_and_their_gradient_equal_loops(name, radius):
    torch.manual_seed(0)
    offsets, positions = make_offsets(name)
    weights = torch.randn(B, H, S, S, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(B, H, S, 2 * radius + 1, dtype=torch.float64)
    expected, of_weights = torch.zeros_like(gradient), torch.zeros_like(weights)
    for b, i, j, tap in list_pairs(positions, radius):
        expected[b, :, i, tap] += weights.detach()[b, :, i, j]
        of_weights[b, :, i, j] = gradient[b, :, i, tap]
    sums = sum_by_offset(weights, offsets, radius)
    torch.testing.assert_close(sums, expected, atol=1e-12, rtol=1e-12)
    (actual,) = torch.autograd.grad(sums, weights, gradient)
    assert torch.equal(actual, of_weights)


@pytest.mark.parametrize("name", POSITIONS)
def test_sums_of_bf16_are_rounded_once(name):
    torch.manual_seed(0)
    offsets, _ = make_offsets(name)
    weights = torch.randn(B, H, S, S).bfloat16()
    actual = sum_by_offset(weights, offsets, 2)
    expected = sum_by_offset(weights.double(), offsets, 2)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.double(), expected, atol=1e-6, rtol=2**-8)


def test_sums_of_queries_after_a_cache_are_rows_of_all_sums():
    torch.manual_seed(0)
    weights = torch.randn(B, H, S, S, dtype=torch.float64)
    every = sum_by_offset(weights, Offsets(None, S, weights.device), 2)
    late = sum_by_offset(weights[:, :, 4:], Offsets(None, S, weights.device, query_start=4), 2)
    torch.testing.assert_close(late, every[:, :, 4:], atol=1e-12, rtol=1e-12)


def test_scores_of_taps_of_all_sentences_are_shared_until_ids_differ():
    taps = torch.randn(1, H, S, 5)
    assert len(scatter_to_diagonals(taps, make_offsets("in order")[0])) == 1
    assert len(scatter_to_diagonals(taps, make_offsets("hidden")[0])) == B
