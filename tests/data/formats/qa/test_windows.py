from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.formats.qa.windows import max_context_tokens, split_into_windows


def paper_windows(length, room, stride):
    """Devlin et al.'s code as a plain loop."""
    spans, start = [], 0
    while True:
        size = min(length - start, room)
        spans.append((start, size))
        if start + size == length:
            return spans
        start += min(size, stride)


def paper_owner(spans, place):
    """The window in which a token has most around it."""
    best, owner = None, None
    for number, (start, size) in enumerate(spans):
        if start <= place < start + size:
            score = min(place - start, start + size - 1 - place) + 0.01 * size
            if best is None or score > best:
                best, owner = score, number
    return owner


@pytest.mark.parametrize(("room", "stride"), [(7, 3), (5, 5), (4, 9), (50, 2), (300, 128)])
def test_windows_and_max_context_equal_the_papers_loop(room, stride):
    lengths = np.array([0, 1, 7, 8, 23, 435])
    found = split_into_windows(lengths, np.full(6, room), stride)
    for question, length in enumerate(lengths.tolist()):
        wanted = paper_windows(length, room, stride)
        own = slice(found.first_windows[question], found.first_windows[question + 1])
        assert list(zip(found.starts[own], found.lengths[own], strict=True)) == wanted
        for number in range(own.start, own.stop):
            places = found.starts[number] + np.arange(found.lengths[number])
            owners = [paper_owner(wanted, place) for place in places.tolist()]
            assert max_context_tokens(found, number).tolist() == [
                it == number - own.start for it in owners
            ]


def test_every_token_has_its_max_context_in_one_window():
    found = split_into_windows(np.array([100, 3]), np.array([20, 20]), 7)
    seen = [
        found.starts[w] + np.flatnonzero(max_context_tokens(found, w))
        for w in range(found.first_windows[1])
    ]
    assert sorted(np.concatenate(seen).tolist()) == list(range(100))


def test_window_length_differs_by_question():
    found = split_into_windows(np.array([10, 10]), np.array([4, 10]), 4)
    assert found.question_ids.tolist() == [0, 0, 0, 1] and found.lengths.tolist() == [4, 4, 2, 10]
