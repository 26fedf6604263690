"""Tokens that generators draw follow their probabilities, on CPUs and by the sums for GPUs."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from toolkit.criteria import Classes, ProjectedClasses, cross_entropy
from toolkit.nn.ops import linear
from toolkit.tasks.pretraining import rtd
from toolkit.tasks.pretraining.rtd import invert_sums, invert_sums_in_two_levels, sample_tokens

SAMPLERS = [invert_sums, invert_sums_in_two_levels]
BOTH = pytest.mark.parametrize("sample", SAMPLERS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(rtd, "TOKENS_PER_BLOCK", 3)
    monkeypatch.setattr(rtd, "CPU_ROWS", 3)
    monkeypatch.setitem(cross_entropy.ROWS_PER_CHUNK, "cpu", 8)


@BOTH
def test_sampled_tokens_follow_the_probabilities_of_the_generator(sample):
    torch.manual_seed(0)
    logits, n = torch.tensor([1.0, -30.0, 0.2, 2.0, -1.0]), 40_000
    counts = Counter(sample(logits.expand(n, -1), torch.rand(n)).tolist())
    expected = n * logits.softmax(-1)
    squares = sum((counts[v] - float(e)) ** 2 / float(e) for v, e in enumerate(expected) if v != 1)
    assert counts[1] == 0 and squares < 16.3  # chi-square, 3 degrees of freedom: 0.1 %


@BOTH
@pytest.mark.parametrize("classes", [1, 2, 7, 8, 30])
def test_each_token_is_drawn_for_its_share_of_the_unit_interval(sample, classes):
    torch.manual_seed(0)
    logits = 3 * torch.randn(classes)
    ends = logits.double().softmax(-1).cumsum(0)
    draws = torch.linspace(0, 1, 4000, dtype=torch.float64)
    expected = torch.searchsorted(ends, draws.clamp(max=1 - 2**-22), right=True)
    found = sample(logits.expand(len(draws), -1), draws.float())
    unsure = (ends - draws[:, None]).abs().amin(1) < 1e-6
    assert unsure.sum() < 40 and torch.equal(found[~unsure], expected[~unsure])


@BOTH
def test_sample_tokens_never_returns_a_token_of_probability_zero(sample):
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]]).expand(2, -1)
    assert sample(logits, torch.tensor([0.0, 1.0])).tolist() == [1, 1]


@BOTH
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_sample_tokens_returns_a_valid_token_for_non_finite_logits(sample, wrong):
    logits = torch.tensor([[0.0, wrong, 0.0]]).expand(2, -1)
    tokens = sample(logits, torch.tensor([0.0, 1.0]))
    assert tokens.min() >= 0 and tokens.max() < 3


def test_sample_tokens_passes_no_gradient():
    logits = torch.randn(2, 5, requires_grad=True)
    assert not sample_tokens(Classes(logits, torch.zeros(2).long()), torch.rand(2)).requires_grad


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("autocast", [False, True])
def test_tokens_of_logits_that_are_not_stored_are_those_of_stored_ones(
    autocast, multiple, monkeypatch
):
    monkeypatch.setitem(linear.CLASSES_MULTIPLE, "cpu", multiple)
    torch.manual_seed(0)
    states, table, bias = torch.randn(37, 6), torch.randn(11, 6), torch.randn(11)
    prediction = ProjectedClasses(states, table, bias, torch.zeros(37).long())
    draws = torch.rand(37)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = prediction.to_classes().logits
        assert (logits.dtype == torch.bfloat16) == autocast
        found = sample_tokens(prediction, draws)
        chunks = list(cross_entropy.split_logits(prediction))
    assert [len(chunk) for chunk in chunks] == [8, 8, 8, 8, 5]
    computed, added = torch.cat(chunks).tensor_split([11], dim=-1)
    torch.testing.assert_close(computed, logits)
    assert added.shape[1] == (0 if multiple == 1 else 5) and added.eq(-torch.inf).all()
    assert torch.equal(found, invert_sums(logits, draws)) and len(set(found.tolist())) > 3


def test_classes_added_to_align_a_product_are_not_drawn_for_non_finite_logits(monkeypatch):
    monkeypatch.setitem(linear.CLASSES_MULTIPLE, "cpu", 8)
    states = torch.full((37, 6), torch.nan)
    prediction = ProjectedClasses(states, torch.randn(11, 6), None, torch.zeros(37).long())
    assert sample_tokens(prediction, torch.rand(37)).max() < 11
