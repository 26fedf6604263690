import pytest
import torch
from torch import nn

from toolkit.checkpoints import tensor_files
from toolkit.common.errors import ToolkitError


def trained(make, layer):
    optimizer = make(layer.parameters())
    for _ in range(3):
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ],
)
def test_optimizer_state_is_restored_by_parameter_name(make):
    torch.manual_seed(0)
    layer = nn.Linear(2, 3)
    saved = tensor_files.collect_state(trained(make, layer), layer)
    reordered = make(reversed(list(layer.parameters())))
    tensor_files.restore(reordered, layer, saved)
    again = tensor_files.collect_state(reordered, layer)
    assert saved.keys() == again.keys() and any(k.startswith("weight::") for k in saved)
    assert all(torch.equal(saved[k], again[k]) for k in saved)


def test_optimizer_state_of_another_learner_is_rejected():
    layer = nn.Linear(2, 3)
    saved = tensor_files.collect_state(trained(torch.optim.Adam, layer), layer)
    with pytest.raises(ToolkitError, match=r"'other' is not a parameter"):
        tensor_files.restore(torch.optim.Adam(layer.parameters()), nn.Bilinear(1, 1, 1), {
            "weight::step": saved["weight::step"], "other::step": saved["weight::step"]
        })  # fmt: skip
