"""The estimate of an update's time follows from what the update does."""

from __future__ import annotations

from tests.gpu.batches import Shape
from tests.gpu.graphed_time import estimate_graphed_update
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


def test_the_host_limits_small_batches_and_the_gpu_large_ones(fake_cuda):
    small, large = estimate(fake_cuda, 4), estimate(fake_cuda, 16384)
    assert small.host > small.gpu
    assert large.gpu > large.host
    assert large.mfu(large.seconds) > 10 * small.mfu(small.seconds)


def test_graphs_make_batches_of_4096_tokens_depend_on_the_gpu_alone(fake_cuda):
    shape = Shape(32, 128)
    case = Case(arch="composite_bert_small", task="mlm", shape=shape, vocabulary=30004)
    plain, graphed = fake_cuda(estimate_update, case), fake_cuda(estimate_graphed_update, case)
    assert plain.host > plain.gpu > graphed.gpu > graphed.host


def test_large_batches_have_no_estimate_with_graphs(fake_cuda):
    case = Case(arch="bert_tiny", task="mlm", options=ONE_LAYER, shape=Shape(512, 128))
    assert fake_cuda(estimate_graphed_update, case) is None
