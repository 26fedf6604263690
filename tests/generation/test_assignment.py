from itertools import combinations, permutations

import numpy as np
import pytest

from toolkit.generation.assignment import assign_positions


def total(scores, place):
    return sum(row[j] for row, j in zip(scores, place, strict=True))


def test_every_place_is_taken_once():
    scores = np.random.default_rng(0).normal(size=(7, 7)).tolist()
    assert sorted(assign_positions(scores)) == list(range(7))


def test_a_thing_gives_way_where_another_would_lose_more():
    assert assign_positions([[0.0, -1.0], [-0.5, -9.0]]) == [1, 0]


@pytest.mark.parametrize("seed", range(5))
def test_no_exchange_of_two_things_gains_and_the_sum_is_close_to_the_best(seed):
    scores = np.random.default_rng(seed).normal(size=(6, 6)).tolist()
    place = assign_positions(scores)
    for i, j in combinations(range(6), 2):
        other = list(place)
        other[i], other[j] = place[j], place[i]
        assert total(scores, place) >= total(scores, other) - 1e-9
    best = max(total(scores, order) for order in permutations(range(6)))
    assert total(scores, place) > best - 1.0


def test_one_thing_has_one_place():
    assert assign_positions([[-3.0]]) == [0]
