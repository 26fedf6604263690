from __future__ import annotations

import math

import pytest
import torch

from toolkit.tasks.squad.span_search import best_spans

PLACES = 9


def tried(begin, end, may_begin, may_end, longest):
    """All pairs, one after the other."""
    found = [
        (float(begin[i] + end[j]), i, j)
        for i in range(PLACES)
        for j in range(i, min(i + longest, PLACES))
        if may_begin[i] and may_end[j]
    ]
    return sorted(found, reverse=True)


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_best_spans_equal_those_of_all_pairs(longest):
    draw = torch.Generator().manual_seed(longest)
    begin, end = (torch.randn(4, PLACES, generator=draw) for _ in range(2))
    may_begin, may_end = (torch.rand(4, PLACES, generator=draw) < 0.6 for _ in range(2))
    found = best_spans(begin, end, may_begin, may_end, max_tokens=longest, count=5)
    for row, (scores, firsts, lasts) in enumerate(zip(*found, strict=True)):
        wanted = tried(begin[row], end[row], may_begin[row], may_end[row], longest)[:5]
        real = scores.isfinite()
        got = zip(scores[real].tolist(), firsts[real].tolist(), lasts[real].tolist(), strict=True)
        assert list(got) == [pytest.approx(it) for it in wanted]


def test_best_spans_are_empty_if_no_position_may_start():
    zeros, no = torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool)
    scores, _, _ = best_spans(zeros, zeros, no, ~no, max_tokens=2, count=3)
    assert scores.tolist() == [[-math.inf] * 3]


def test_best_spans_returns_all_pairs_if_there_are_fewer_than_requested():
    zeros, yes = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    assert best_spans(zeros, zeros, yes, yes, max_tokens=1, count=9)[0].shape == (1, 2)
