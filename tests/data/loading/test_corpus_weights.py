from collections import Counter

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.loading.batching import BatchPlanner, CorpusWeights

COUNTS = (1000, 700, 301)
LENGTHS = np.random.default_rng(0).integers(1, 129, sum(COUNTS))


def planner(*weights, counts=COUNTS):
    return BatchPlanner(
        LENGTHS[: sum(counts)],
        max_tokens=1000,
        batch_size=None,
        seed=1,
        fingerprint="data",
        corpus_weights=CorpusWeights(counts, list(map(float, weights))) if weights else None,
    )


def met(plan, counts=COUNTS):
    """How many examples of each corpus a plan holds."""
    corpora = np.searchsorted(np.cumsum(counts), plan.ids % sum(counts), side="right")
    return np.bincount(corpora, minlength=len(counts)).tolist()


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ((1, 1, 1), [1000, 700, 301]),
        ((2, 1, 3), [2000, 700, 903]),
        ((0.5, 1, 1), [500, 700, 301]),
        ((0.1, 2.25, 1.005), [100, 1575, 303]),
    ],
)
def test_epoch_sees_each_corpus_as_often_as_its_weight_says(weights, wanted):
    mixed = planner(*weights)
    assert CorpusWeights(COUNTS, list(map(float, weights))).per_epoch == wanted
    assert [met(mixed.epoch(epoch)) for epoch in (1, 2)] == [wanted, wanted]


def test_epoch_sees_every_whole_copy_and_a_part_of_the_last():
    ids = Counter((planner(2.25, 1, 1).epoch(1).ids % sum(COUNTS)).tolist())
    times = Counter(ids[i] for i in range(1000))
    assert times == {2: 750, 3: 250} and all(ids[i] == 1 for i in range(1000, sum(COUNTS)))


def test_partial_copies_are_redrawn_every_epoch_and_reproducible():
    first, again, second = (set(planner(0.5, 1, 1).epoch(e).ids.tolist()) for e in (1, 1, 2))
    assert first == again != second
    assert 150 < len(first & second & set(range(1000))) < 350  # a half of a half, about


def test_weighted_epochs_have_equally_many_micro_batches_within_the_bounds():
    mixed = planner(0.37, 2.2, 1)
    for plan in map(mixed.epoch, (1, 2, 3)):
        assert len(plan) == len(mixed)
        sizes = [LENGTHS[plan.batch(index) % len(LENGTHS)] for index in range(len(plan))]
        assert max(len(found) * found.max() for found in sizes) <= 1000


def test_weights_of_one_change_nothing():
    for got, want in zip(planner(1, 1, 1).epoch(4), planner().epoch(4), strict=True):
        assert got.tolist() == want.tolist()


def test_weight_that_leaves_no_example_is_rejected():
    with pytest.raises(ToolkitError, match=r"0\.001 x 301 examples of corpus 3 is less"):
        CorpusWeights(COUNTS, [1.0, 1.0, 0.001])
