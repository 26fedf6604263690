"""FLOPs: of operations, of an update, and of the device."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from toolkit import build_model
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch
from toolkit.training.callbacks.logging import (
    peak_flops_per_second,
    update_flops,
)
from toolkit.training.flop_counter import FlopCounter, attribute_flops


def test_fused_attention_counts_both_matrix_products():
    q = torch.ones(2, 4, 32, 16)
    with FlopCounter() as counted:
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert counted.total == 2 * (2 * 2 * 4 * 32 * 32 * 16)


@pytest.mark.parametrize("name", ["bert_tiny", "composite_bert_tiny", "taco_tiny"])
def test_total_of_forward_and_backward_equals_torchs_counter(name):
    with torch.device("meta"):
        encoder = build_model(name, vocabulary_size=50)
        inputs = Inputs(torch.ones(2, 16, dtype=torch.long))
        with FlopCounterMode(display=False) as torchs, FlopCounter() as counted:
            encoder(inputs).states.sum().backward()
    assert counted.total == torchs.get_total_flops() > 0


def test_convolution_backward_costs_one_forward_per_gradient():
    depthwise = nn.Conv1d(8, 8, 5, padding=2, groups=8)
    with FlopCounter() as counted:
        found = depthwise(torch.ones(3, 8, 20, requires_grad=True))
        forward = counted.total
        found.sum().backward()
    assert forward == 2 * 3 * 20 * 8 * 5 and counted.total == 3 * forward


def test_operations_belong_to_the_innermost_module_in_both_directions():
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)))
    parts = {"first": model[0], "rest": model[1], "last": model[1][1]}
    counted = FlopCounter()
    with counted, attribute_flops(counted, parts):
        found = model(torch.ones(3, 4))
        forward = dict(counted.by_owner)
        found.sum().backward()
    assert forward == {"first": 2 * 3 * 4 * 8, "rest": 2 * 3 * 8 * 8, "last": 2 * 3 * 8 * 2}
    both = {"first": 2 * forward["first"], "rest": 3 * forward["rest"], "last": 3 * forward["last"]}
    assert counted.by_owner == both
    assert not any(module._forward_hooks for module in model.modules())


CPU = torch.device("cpu")


def masked(sentences, length, places):
    return TargetBatch(
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


def test_peak_flops_are_those_of_known_gpus(monkeypatch):
    assert peak_flops_per_second(CPU, "bf16") is None
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert peak_flops_per_second(torch.device("cuda", 0), "bf16") == 989e12
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Another")
    assert peak_flops_per_second(torch.device("cuda", 0), "bf16") is None
