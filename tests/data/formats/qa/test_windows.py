from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.formats.qa.split import max_context_tokens, split_into_windows


def paper_windows(length, room, stride):
    """Devlin et al.'s code as a plain loop."""
    spans, start = [], 0
    while True:
        size = min(length - start, room)
        spans.append((start, size))
        if start + size == length:
            return spans
        start += min(size, stride)


def paper_max_context(spans, token):
    """The window in which a token has most around it."""
    best, best_window = None, None
    for number, (start, size) in enumerate(spans):
        if start <= token < start + size:
            score = min(token - start, start + size - 1 - token) + 0.01 * size
            if best is None or score > best:
                best, best_window = score, number
    return best_window


@pytest.mark.parametrize(("room", "stride"), [(7, 3), (5, 5), (4, 9), (50, 2), (300, 128)])
def test_windows_and_max_context_equal_the_papers_loop(room, stride):
    lengths = np.array([0, 1, 7, 8, 23, 435])
    found = split_into_windows(lengths, np.full(6, room), stride)
    for question, length in enumerate(lengths.tolist()):
        expected = paper_windows(length, room, stride)
        own = slice(found.first_windows[question], found.first_windows[question + 1])
        assert list(zip(found.starts[own], found.lengths[own], strict=True)) == expected
        for number in range(own.start, own.stop):
            tokens = found.starts[number] + np.arange(found.lengths[number])
            best_windows = [paper_max_context(expected, token) for token in tokens.tolist()]
            assert max_context_tokens(found, number).tolist() == [
                it == number - own.start for it in best_windows
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
