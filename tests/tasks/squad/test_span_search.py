from __future__ import annotations

import math

import pytest
import torch

from toolkit.tasks.squad.span_search import best_spans

POSITIONS = 9


def all_spans(start, end, may_start, may_end, max_tokens):
    """All pairs, best first."""
    spans = [
        (float(start[i] + end[j]), i, j)
        for i in range(POSITIONS)
        for j in range(i, min(i + max_tokens, POSITIONS))
        if may_start[i] and may_end[j]
    ]
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("max_tokens", [1, 3, 50])
def test_best_spans_equal_those_of_all_pairs(max_tokens):
    draw = torch.Generator().manual_seed(max_tokens)
    start, end = (torch.randn(4, POSITIONS, generator=draw) for _ in range(2))
    may_start, may_end = (torch.rand(4, POSITIONS, generator=draw) < 0.6 for _ in range(2))
    spans = best_spans(start, end, may_start, may_end, max_tokens=max_tokens, count=5)
    for row, (scores, firsts, lasts) in enumerate(zip(*spans, strict=True)):
        expected = all_spans(start[row], end[row], may_start[row], may_end[row], max_tokens)[:5]
        real = scores.isfinite()
        got = zip(scores[real].tolist(), firsts[real].tolist(), lasts[real].tolist(), strict=True)
        assert list(got) == [pytest.approx(it) for it in expected]


def test_best_spans_are_empty_if_no_position_may_start():
    zeros, no = torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool)
    scores, _, _ = best_spans(zeros, zeros, no, ~no, max_tokens=2, count=3)
    assert scores.tolist() == [[-math.inf] * 3]


def test_best_spans_returns_all_pairs_if_there_are_fewer_than_requested():
    zeros, yes = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    assert best_spans(zeros, zeros, yes, yes, max_tokens=1, count=9)[0].shape == (1, 2)
