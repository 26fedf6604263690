import pytest
import torch

from toolkit.nn.attention.offsets import Offsets, scatter_to_diagonals
from toolkit.nn.ops.skew import find_moved_tokens, scatter_by_position

BATCH, HEADS, LENGTH, REACH = 2, 3, 7, 8


def given(seed=0):
    torch.manual_seed(seed)
    ids = torch.randint(-1, REACH, (BATCH, LENGTH))
    ids[:, 0], ids[:, 1] = -1, REACH - 1  # the furthest apart
    shape = (BATCH, HEADS, LENGTH, 2 * REACH + 1)
    return ids, torch.randn(shape, dtype=torch.float64, requires_grad=True)


def by_loops(taps, ids):
    out = torch.zeros(BATCH, HEADS, LENGTH, LENGTH, dtype=taps.dtype)
    for b in range(BATCH):
        for i in range(LENGTH):
            for j in range(LENGTH):
                out[b, :, i, j] = taps[b, :, i, ids[b, j] - ids[b, i] + REACH]
    return out


def test_windows_lay_taps_as_the_loops_do_and_their_gradient_is_the_loops():
    ids, taps = given()
    laid, expected = (
        scatter_to_diagonals(taps, Offsets(ids, LENGTH, ids.device)),
        by_loops(taps, ids),
    )
    assert torch.equal(laid, expected)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("reach", [REACH, REACH + 3])
@pytest.mark.parametrize("every", [False, True])
def test_more_positions_than_are_in_use_change_nothing(reach, every):
    ids, taps = given()
    wide = torch.nn.functional.pad(taps, (reach - REACH, reach - REACH))
    strayed = find_moved_tokens(ids + 1, 1, reach + 1, 0, every=every)
    assert torch.equal(scatter_by_position(wide, ids + 1, strayed), by_loops(taps, ids))


@pytest.mark.parametrize("every", [False, True])
def test_sentences_with_unequally_many_moved_places_are_laid_as_the_loops_do(every):
    ids, taps = given()
    ids[:] = torch.arange(LENGTH)
    ids[0, 2:5], ids[1, 6] = torch.tensor([-1, 5, -1]), 0
    strayed = find_moved_tokens(ids + 1, 1, REACH + 1, 0, every=every)
    assert strayed.indices.shape[1] == (LENGTH if every else 4)  # 2, 3, 4, and 5, where 3 stands
    laid, expected = scatter_by_position(taps, ids + 1, strayed), by_loops(taps, ids)
    assert torch.equal(laid, expected)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("seed", range(8))
def test_a_sentence_of_which_every_place_is_moved_changes_nothing_in_its_neighbors(seed):
    ids, taps = given(seed)
    ids[0], ids[1] = torch.arange(LENGTH), torch.arange(LENGTH).roll(1)
    gaps = torch.randperm(LENGTH)[:3]
    ids[0, gaps] = torch.randint(0, REACH, (3,))  # another sentence with some places to put right
    strayed = find_moved_tokens(ids + 1, 1, REACH + 1, 0, every=False)
    assert strayed.indices.shape[1] == LENGTH
    laid, expected = scatter_by_position(taps, ids + 1, strayed), by_loops(taps, ids)
    assert torch.equal(laid, expected)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    torch.testing.assert_close(mine, theirs)


def test_many_more_positions_than_places_have_the_loops_gradient_too():
    ids = torch.tensor([[1, -1, 40]])
    taps = torch.randn(1, 1, 3, 2 * 60 + 1, dtype=torch.float64, requires_grad=True)
    laid = scatter_by_position(taps, ids + 1, find_moved_tokens(ids + 1, 1, 60, 0, every=False))
    offsets = ids[:, None, None, :] - ids[:, None, :, None] + 60
    expected = taps.gather(-1, offsets)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    assert torch.equal(laid, expected) and torch.equal(mine, theirs)


def test_taps_need_not_lie_side_by_side():
    ids, taps = given()
    apart = taps.detach().transpose(0, 1).contiguous().transpose(0, 1)
    offsets, weights = Offsets(ids, LENGTH, ids.device), torch.randn(BATCH, HEADS, LENGTH, LENGTH)
    each = [scatter_to_diagonals(x, offsets) for x in (apart.requires_grad_(), taps)]
    assert torch.equal(*each)
    gradients = torch.autograd.grad(each, [apart, taps], [weights.double()] * 2)
    assert torch.equal(*gradients) and gradients[0].stride() == apart.stride()


@pytest.mark.parametrize("seed", range(8))
def test_any_ids_after_a_sentence_in_order_have_the_loops_gradient(seed):
    _, taps = given(seed)
    ids = torch.arange(LENGTH).repeat(BATCH, 1)
    some = torch.rand(LENGTH) < seed / 7  # none to all
    ids[1, some] = torch.randint(-1, REACH, (LENGTH,))[some]
    strayed = find_moved_tokens(ids + 1, 1, REACH + 1, 1, every=False)
    laid, expected = scatter_by_position(taps, ids + 1, strayed), by_loops(taps, ids)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    assert torch.equal(laid, expected)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("plain", [1, 2])
def test_sentences_in_order_before_the_others_are_laid_all_the_same(plain):
    ids, taps = given()
    ids[:plain] = torch.arange(LENGTH)
    offsets = Offsets(ids, LENGTH, ids.device)
    laid, expected = scatter_to_diagonals(taps, offsets), by_loops(taps, ids)
    assert offsets.ordered_prefix == plain and torch.equal(laid, expected)
    weights = torch.randn_like(laid)
    mine, theirs = (torch.autograd.grad(out, taps, weights)[0] for out in (laid, expected))
    torch.testing.assert_close(mine, theirs)
