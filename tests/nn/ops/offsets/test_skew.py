import pytest
import torch

from toolkit.nn.attention.inputs import Offsets, scatter_to_diagonals
from toolkit.nn.ops.offsets.token_order import (
    copy_by_index,
    find_moved_tokens,
    scatter_by_index,
    scatter_by_position,
)

BATCH, HEADS, LENGTH, RADIUS = 2, 3, 7, 8


def make_inputs(seed=0):
    torch.manual_seed(seed)
    ids = torch.randint(-1, RADIUS, (BATCH, LENGTH))
    ids[:, 0], ids[:, 1] = -1, RADIUS - 1  # the largest offset
    shape = (BATCH, HEADS, LENGTH, 2 * RADIUS + 1)
    return ids, torch.randn(shape, dtype=torch.float64, requires_grad=True)


def reference(taps, ids):
    out = torch.zeros(BATCH, HEADS, LENGTH, LENGTH, dtype=taps.dtype)
    for b in range(BATCH):
        for i in range(LENGTH):
            for j in range(LENGTH):
                out[b, :, i, j] = taps[b, :, i, ids[b, j] - ids[b, i] + RADIUS]
    return out


def check(scores, taps, ids):
    """The scores and the gradient of a random sum of them equal those of the loops."""
    expected = reference(taps, ids)
    assert torch.equal(scores, expected)
    weights = torch.randn_like(scores)
    gradients = (torch.autograd.grad(out, taps, weights)[0] for out in (scores, expected))
    torch.testing.assert_close(*gradients)


def test_scatter_by_position_and_its_gradient_equal_loops():
    ids, taps = make_inputs()
    check(scatter_to_diagonals(taps, Offsets(ids, LENGTH, ids.device)), taps, ids)


@pytest.mark.parametrize("radius", [RADIUS, RADIUS + 3])
@pytest.mark.parametrize("every", [False, True])
def test_scatter_by_position_ignores_unused_positions(radius, every):
    ids, taps = make_inputs()
    wide = torch.nn.functional.pad(taps, (radius - RADIUS, radius - RADIUS))
    moved = find_moved_tokens(ids + 1, 1, radius + 1, 0, every=every)
    assert torch.equal(scatter_by_position(wide, ids + 1, moved), reference(taps, ids))


@pytest.mark.parametrize("every", [False, True])
def test_scatter_by_position_equals_loops_for_different_numbers_of_moved_tokens(every):
    ids, taps = make_inputs()
    ids[:] = torch.arange(LENGTH)
    ids[0, 2:5], ids[1, 6] = torch.tensor([-1, 5, -1]), 0
    moved = find_moved_tokens(ids + 1, 1, RADIUS + 1, 0, every=every)
    assert moved.indices.shape[1] == (
        LENGTH if every else 4
    )  # 2, 3, 4, and 5, whose position token 3 has
    check(scatter_by_position(taps, ids + 1, moved), taps, ids)


@pytest.mark.parametrize("seed", range(8))
def test_scatter_by_position_of_a_fully_moved_sentence_leaves_others_unchanged(seed):
    ids, taps = make_inputs(seed)
    ids[0], ids[1] = torch.arange(LENGTH), torch.arange(LENGTH).roll(1)
    some = torch.randperm(LENGTH)[:3]
    ids[0, some] = torch.randint(0, RADIUS, (3,))  # another sentence with some moved tokens
    moved = find_moved_tokens(ids + 1, 1, RADIUS + 1, 0, every=False)
    assert moved.indices.shape[1] == LENGTH
    check(scatter_by_position(taps, ids + 1, moved), taps, ids)


def test_scatter_by_position_equals_gather_for_a_wide_range_of_positions():
    ids = torch.tensor([[1, -1, 40]])
    taps = torch.randn(1, 1, 3, 2 * 60 + 1, dtype=torch.float64, requires_grad=True)
    scores = scatter_by_position(taps, ids + 1, find_moved_tokens(ids + 1, 1, 60, 0, every=False))
    offsets = ids[:, None, None, :] - ids[:, None, :, None] + 60
    expected = taps.gather(-1, offsets)
    weights = torch.randn_like(scores)
    gradient, expected_gradient = (
        torch.autograd.grad(out, taps, weights)[0] for out in (scores, expected)
    )
    assert torch.equal(scores, expected) and torch.equal(gradient, expected_gradient)


def test_scatter_by_position_accepts_strided_taps():
    ids, taps = make_inputs()
    strided = taps.detach().transpose(0, 1).contiguous().transpose(0, 1)
    offsets, weights = Offsets(ids, LENGTH, ids.device), torch.randn(BATCH, HEADS, LENGTH, LENGTH)
    outputs = [scatter_to_diagonals(x, offsets) for x in (strided.requires_grad_(), taps)]
    assert torch.equal(*outputs)
    gradients = torch.autograd.grad(outputs, [strided, taps], [weights.double()] * 2)
    assert torch.equal(*gradients) and gradients[0].stride() == strided.stride()


@pytest.mark.parametrize("seed", range(8))
def test_scatter_by_position_equals_loops_after_a_sentence_in_order(seed):
    _, taps = make_inputs(seed)
    ids = torch.arange(LENGTH).repeat(BATCH, 1)
    some = torch.rand(LENGTH) < seed / 7  # none to all
    ids[1, some] = torch.randint(-1, RADIUS, (LENGTH,))[some]
    moved = find_moved_tokens(ids + 1, 1, RADIUS + 1, 1, every=False)
    check(scatter_by_position(taps, ids + 1, moved), taps, ids)


@pytest.mark.parametrize("plain", [1, 2])
def test_scatter_to_diagonals_handles_leading_sentences_in_order(plain):
    ids, taps = make_inputs()
    ids[:plain] = torch.arange(LENGTH)
    offsets = Offsets(ids, LENGTH, ids.device)
    check(scatter_to_diagonals(taps, offsets), taps, ids)
    assert offsets.ordered_prefix == plain


@pytest.mark.parametrize("every", [False, True])
def test_scatter_by_position_ignores_taps_after_those_of_all_offsets(every):
    ids, taps = make_inputs()
    ids[0] = torch.arange(LENGTH)
    moved = find_moved_tokens(ids + 1, 1, RADIUS + 1, 0, every=every)
    longer = torch.nn.functional.pad(taps, (0, 1), value=torch.nan)
    results = [scatter_by_position(x, ids + 1, moved) for x in (longer, taps)]
    assert torch.equal(*results)
    weights = torch.randn_like(results[0])
    gradients = [torch.autograd.grad(out, taps, weights)[0] for out in results]
    assert torch.equal(*gradients)


def test_a_gpu_computes_a_multiple_of_eight_positions():
    for limit in range(5, 40):
        ids = torch.zeros(2, 5, dtype=torch.long, device="meta")
        count = Offsets(ids, 5, ids.device, limit).max_offset + 1
        assert count % 8 == 0 and limit + 1 <= count < limit + 9


@pytest.mark.parametrize("axis", [1, -1])
def test_scatter_by_index_equals_copies_sentence_by_sentence(axis):
    torch.manual_seed(1)
    expected = torch.randn(2, 3, 5, 7)
    found, length = expected.clone(), expected[0].shape[axis]
    indices = torch.stack([torch.randperm(length)[:4] for _ in range(2)])
    shape = [2, 3, 5, 7]
    shape[axis % 3 + 1] = 4
    values = torch.randn(shape)
    copy_by_index(expected, axis, indices, values)
    scatter_by_index(found, axis, indices, values)
    assert torch.equal(found, expected)
