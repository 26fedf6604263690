import numpy as np
import pytest

from toolkit.generation.beam_state import Beams, first, remaining, settled


def test_the_first_candidates_that_are_wanted_come_in_order():
    wanted = np.array([[[False, True, True, False, True]]])
    assert first(wanted, 2).tolist() == [[[1, 2]]]
    assert first(wanted, 4).tolist() == [[[1, 2, 4, 0]]]  # filled up with others


@pytest.mark.parametrize(
    ("parents", "order"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([2, 0, 1], [1, 2, 0]),
        ([1, 1, 1], [1, 0, 2]),
        ([2, 2, 0], [2, 1, 0]),
    ],
)
def test_children_stand_where_their_parents_stood(parents, order):
    parents = np.array([[parents]])
    found = settled(parents)
    assert found.tolist() == [[order]]
    stay = np.take_along_axis(parents, found, 2) == np.arange(3)
    assert stay.sum() == len(set(parents.ravel().tolist()))


def test_the_last_sentences_take_the_places_of_those_that_leave():
    stay = np.array([True, False, True, False, True, True])
    assert remaining(stay).tolist() == [0, 4, 2, 5]
    assert remaining(np.array([False, False])).tolist() == []


def test_hypotheses_go_on_from_their_parents():
    beams = Beams.begun(2, 1).go_on(*(np.zeros((2, 1, 2), int),) * 2, np.zeros((2, 1, 2)))
    tokens = np.array([[[5, 6]], [[7, 8]]])
    new = beams.go_on(np.array([[[1, 0]], [[0, 0]]]), tokens, -tokens / 2)
    assert new.tokens[:, 0].tolist() == [[[0, 5], [0, 6]], [[0, 7], [0, 8]]]
    lost = np.array([[[True, False]], [[False, False]]])
    kept = new.go_along(np.array([[[1, 0]], [[0, 1]]]), lost)
    assert kept.last[:, 0].tolist() == [[-np.inf, -2.5], [-3.5, -4.0]]
    assert kept.take(np.array([1])).sentences.tolist() == [1]
