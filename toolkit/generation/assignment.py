"""Which of so many things goes where: each place taken once, all together most probable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

Scores = Sequence[Sequence[float]]
"""Row i: log-probability of thing i at each place."""


def assign_positions(scores: Scores) -> list[int]:
    """For each thing its place, no place twice: a high sum of scores, though not always the best.

    The surest choices are made first; then two things change places as long as that helps.
    """
    size = len(scores)
    order = sorted(((scores[i][j], i, j) for i in range(size) for j in range(size)), reverse=True)
    place = [-1] * size
    taken: set[int] = set()
    for _, i, j in order:
        if place[i] < 0 and j not in taken:
            place[i] = j
            taken.add(j)
    while swap_pair(place, scores):
        pass
    return place


def swap_pair(place: list[int], scores: Scores) -> bool:
    """Exchange the first pair that gains by it."""
    for i, j in combinations(range(len(place)), 2):
        gain = scores[i][place[j]] + scores[j][place[i]] - scores[i][place[i]] - scores[j][place[j]]
        if gain > 1e-9:
            place[i], place[j] = place[j], place[i]
            return True
    return False
