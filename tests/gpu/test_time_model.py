"""The estimate of an update's time follows from what the update does."""

from __future__ import annotations

from tests.gpu.batches import Shape
from tests.gpu.steps import Case
from tests.gpu.time_model import estimate_update

ONE_LAYER = {"layers": 1}


def estimate(fake_cuda, sentences, vocabulary=30016):
    case = Case(
        arch="composite_bert_tiny",
        task="mlm",
        options=ONE_LAYER,
        shape=Shape(sentences, 64),
        vocabulary=vocabulary,
    )
    return fake_cuda(estimate_update, case)


def test_small_batches_are_limited_by_the_host_and_graphs_remove_that_limit(fake_cuda):
    small, large = estimate(fake_cuda, 4), estimate(fake_cuda, 16384)
    assert small.host > small.gpu > small.graphed
    assert large.gpu > large.host
    assert large.mfu(large.seconds) > 10 * small.mfu(small.seconds)
