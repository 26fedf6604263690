import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from toolkit import build_model
from toolkit.models.interface import Inputs
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
