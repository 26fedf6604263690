import re
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import LATER
from toolkit.data.loading.batching import (
    BatchPlanner,
    CorpusWeights,
    Curriculum,
    compute_fingerprint,
)


def planner(lengths, max_tokens=None, batch_size=None, seed=1, fingerprint="data", **options):
    return BatchPlanner(
        np.array(lengths, np.int64),
        max_tokens=max_tokens,
        batch_size=batch_size,
        seed=seed,
        fingerprint=fingerprint,
        **options,
    )


@pytest.fixture
def lengths():
    return np.random.default_rng(0).integers(1, 129, 3001)


def batches(plan):
    return [plan.batch(index).tolist() for index in range(len(plan))]


BOUNDS = [(1000, None), (None, 32), (1000, 16), (None, None), (128, None), (10**9, 10**9)]


@pytest.mark.parametrize("max_tokens, batch_size", BOUNDS)
def test_every_example_is_in_exactly_one_batch_of_every_epoch(lengths, max_tokens, batch_size):
    found = planner(lengths, max_tokens, batch_size)
    for plan in (found.epoch(1), found.epoch(2), found.in_order()):
        assert sorted(i for batch in batches(plan) for i in batch) == list(range(3001))


@pytest.mark.parametrize("max_tokens, batch_size", BOUNDS)
def test_padded_tokens_and_examples_are_bounded(lengths, max_tokens, batch_size):
    for batch in batches(planner(lengths, max_tokens, batch_size).epoch(3)):
        assert len(batch) <= (batch_size or (32 if max_tokens is None else 10**9))
        assert len(batch) * lengths[batch].max() <= (max_tokens or 10**9)


def test_epochs_have_equally_many_batches_in_another_composition_and_order(lengths):
    found = planner(lengths, 1000)
    first, second = batches(found.epoch(1)), batches(found.epoch(2))
    assert len(first) == len(second) == len(found)
    assert first != second
    assert not {frozenset(b) for b in first if len(b) > 2} & {frozenset(b) for b in second}


WEIGHTS = [None, CorpusWeights([2000, 1001], [0.5, 2.5])]


@pytest.mark.parametrize("weights", WEIGHTS, ids=["once", "weighted"])
@pytest.mark.parametrize("budget", [128, 1000, 10**6])
def test_filled_batches_hold_each_example_and_up_to_the_budget_of_all_lengths(
    lengths, budget, weights
):
    found = planner(lengths, budget, fills=True, corpus_weights=weights)
    rows, longest, tokens = found.shape
    assert (longest, tokens) == (128, budget)
    for epoch in (1, 2):
        plan = batches(found.epoch(epoch))
        ids = np.sort(np.concatenate([np.array(batch) for batch in plan]))
        assert len(plan) == len(found)
        if weights is None:
            assert ids.tolist() == list(range(3001))
        else:  # 1000 of the first corpus; all of the second twice, and 501 of them once more
            assert (len(ids), len(np.unique(ids))) == (sum(weights.per_epoch),) * 2
            assert (ids % 3001 < 2000).sum() == 1000
        used = [int(lengths[np.array(batch) % 3001].sum()) for batch in plan]
        assert max(used) <= budget
        assert found.filler == pytest.approx(1 - sum(used) / budget / len(plan))
        assert max(len(b) - (u - budget) // 128 for b, u in zip(plan, used, strict=True)) == rows


def test_filled_batches_mix_lengths_and_have_little_filler(lengths):
    found = planner(lengths, 4096, fills=True)
    means = [lengths[batch].mean() for batch in batches(found.epoch(1))[:-1]]
    assert np.std(means) < 8 < 0.5 * np.std(lengths)
    assert found.filler < 0.015


def test_the_plan_depends_on_seed_epoch_and_data(lengths):
    want = batches(planner(lengths, 1000).epoch(1))
    assert batches(planner(lengths, 1000).epoch(1)) == want
    assert batches(planner(lengths, 1000, seed=2).epoch(1)) != want
    assert batches(planner(lengths, 1000, fingerprint="other").epoch(1)) != want


def test_example_longer_than_max_tokens_is_named_in_the_error():
    message = (
        "max_tokens must be at least the length of the longest example, but is 10 and example 1 "
        "has 11 tokens. Raise --max-tokens, or lower --tokens-per-sample."
    )
    with pytest.raises(ToolkitError, match=re.escape(message)):
        planner([3, 11], max_tokens=10)


def test_no_examples_are_an_error():
    with pytest.raises(ToolkitError, match=r"there are no examples\. Choose"):
        planner([])


@dataclass
class Before:
    rate: float = 0.15


@dataclass
class After(Before):
    interval: int = field(default=0, metadata=LATER)


def test_option_that_came_later_changes_the_order_of_batches_only_if_it_is_used():
    prints = [compute_fingerprint("data", it) for it in (Before(), After(), After(interval=2))]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("weights", WEIGHTS, ids=["once", "weighted"])
def test_curriculum_sorts_the_first_epochs_and_keeps_their_examples(lengths, weights):
    difficulty = np.random.default_rng(1).normal(size=3001).round(1)
    sorts = Curriculum(difficulty, 2)
    plain = planner(lengths, 1000, corpus_weights=weights)
    found = planner(lengths, 1000, corpus_weights=weights, curriculum=sorts)
    assert batches(found.epoch(3)) == batches(plain.epoch(3))
    for epoch in (1, 2):
        rising, shuffled = batches(found.epoch(epoch)), batches(plain.epoch(epoch))
        assert sorted(chain(*rising)) == sorted(chain(*shuffled))
        assert sorted(map(len, rising)) == sorted(map(len, shuffled))
        means = [np.mean([difficulty[i % 3001] for i in batch]) for batch in rising]
        assert np.diff(means).min() > -1e-9 and means[0] < -1 and means[-1] > 1
        widths = [max(lengths[i % 3001] for i in batch) * len(batch) for batch in rising]
        assert max(widths) <= 1000
    assert batches(found.epoch(1)) != batches(found.epoch(2))  # equal ones are shuffled


def test_curriculum_of_lengths_equals_sorting_by_a_loop(lengths):
    found = planner(lengths, None, 1, curriculum=Curriculum(lengths.astype(float), 1))
    order = [batch[0] for batch in batches(found.epoch(1))]
    assert [lengths[i] for i in order] == sorted(lengths)
