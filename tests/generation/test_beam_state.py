import numpy as np
import pytest

from toolkit.generation.hypothesis import BeamState, compact_order, first_matches, order_in_place


def test_first_matches_returns_the_first_true_candidates_in_order():
    matches = np.array([[[False, True, True, False, True]]])
    assert first_matches(matches, 2).tolist() == [[[1, 2]]]
    assert first_matches(matches, 4).tolist() == [[[1, 2, 4, 0]]]  # then the others


@pytest.mark.parametrize(
    ("parents", "order"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([2, 0, 1], [1, 2, 0]),
        ([1, 1, 1], [1, 0, 2]),
        ([2, 2, 0], [2, 1, 0]),
    ],
)
def test_order_in_place_keeps_children_at_the_index_of_their_parent(parents, order):
    parents = np.array([[parents]])
    children = order_in_place(parents)
    assert children.tolist() == [[order]]
    stay = np.take_along_axis(parents, children, 2) == np.arange(3)
    assert stay.sum() == len(set(parents.ravel().tolist()))


def test_compact_order_replaces_leaving_sentences_by_the_last_ones():
    stay = np.array([True, False, True, False, True, True])
    assert compact_order(stay).tolist() == [0, 4, 2, 5]
    assert compact_order(np.array([False, False])).tolist() == []


def test_extended_hypotheses_continue_their_parents():
    beams = BeamState.initial(2, 1).extend(*(np.zeros((2, 1, 2), int),) * 2, np.zeros((2, 1, 2)))
    tokens = np.array([[[5, 6]], [[7, 8]]])
    new = beams.extend(np.array([[[1, 0]], [[0, 0]]]), tokens, -tokens / 2)
    assert new.tokens[:, 0].tolist() == [[[0, 5], [0, 6]], [[0, 7], [0, 8]]]
    unused = np.array([[[True, False]], [[False, False]]])
    kept = new.select_candidates(np.array([[[1, 0]], [[0, 1]]]), unused)
    assert kept.current_totals[:, 0].tolist() == [[-np.inf, -2.5], [-3.5, -4.0]]
    assert kept.select_sentences(np.array([1])).sentences.tolist() == [1]
