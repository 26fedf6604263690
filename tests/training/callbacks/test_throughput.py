import pytest
import torch

from toolkit.models.interface import Inputs
from toolkit.tasks.build import build_model
from toolkit.tasks.examples import MaskedBatch
from toolkit.training.callbacks import logging
from toolkit.training.callbacks.logging import (
    measure_flops_per_second,
    peak_flops_per_second,
    update_flops,
)

CPU = torch.device("cpu")


def masked(sentences, length, places):
    return MaskedBatch(
        inputs=Inputs(torch.ones(sentences, length, dtype=torch.long)),
        selected=torch.arange(places),
        targets=torch.ones(places, dtype=torch.long),
        weights={"mlm": float(places)},
        sentences=sentences,
        tokens=sentences * length,
    )


def test_update_flops_counts_matrix_products():
    """2 m n k each: projections, scores and values, feed-forward, and the head's two maps.

    The last feed-forward network sees the selected places only.
    """
    width, layers, length, vocabulary, places = 64, 2, 32, 100, 10
    learner = build_model(
        "bert_tiny", vocabulary_size=vocabulary, task="mlm", layers=layers, width=width, heads=2,
        embedding_width=width,
    )  # fmt: skip
    tokens = 4 * length
    attention = 2 * tokens * (4 * width * width + 2 * length * width)
    feed_forward = 2 * (tokens * (layers - 1) + places) * 8 * width * width
    head = 2 * places * (width * width + width * vocabulary)
    found = update_flops(learner, masked(4, length, places), CPU)
    assert found == pytest.approx(3 * (layers * attention + feed_forward + head), rel=0.01)


def test_peak_flops_measures_a_cpu_and_omits_an_unknown_gpu(monkeypatch):
    assert measure_flops_per_second("fp32", size=64, seconds=0.01) > 1e6
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert peak_flops_per_second(torch.device("cuda", 0), "bf16") == 989e12
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Another")
    assert peak_flops_per_second(torch.device("cuda", 0), "bf16") is None


@pytest.mark.parametrize(("rate", "size"), [(1e9, 256), (1e12, 1024)])
def test_peak_flops_of_a_slow_cpu_are_those_of_small_products(monkeypatch, rate, size):
    sizes = []

    def time_product(n, dtype):
        sizes.append(n)
        return 2 * n**3 / rate

    monkeypatch.setattr(logging, "time_product", time_product)
    assert measure_flops_per_second("bf16", seconds=0.05) == pytest.approx(rate)
    assert max(sizes) == size
