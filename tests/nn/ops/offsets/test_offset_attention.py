"""Attention by offset on a CPU compared with the plain form of the map."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import toolkit.models.bert  # noqa: F401
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention.inputs import Offsets
from toolkit.nn.ops.offsets import attention as module

LENGTH = 9
TERMS = [
    {"positions": ["xl", "t5"]},
    {"positions": ["deberta", "fixed"]},
    {"positions": ["deberta"], "position_buckets": 4, "max_distance": 8},
    {"positions": ["shaw", "rope"], "shaw_values": True, "radius": 2},
]


def run_encoder(options, positions=None, dtype=torch.float64):
    """States and gradients of a small encoder with random parameters, with padding and dropout."""
    entry = ARCHITECTURES["bert_tiny"]
    config = replace(entry.config, layers=1, width=16, embedding_width=16, **options)
    torch.manual_seed(0)
    model = entry.factory(config, Sizes(tokens=20)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    padding = torch.zeros(3, LENGTH, dtype=torch.bool)
    padding[1, 5:] = True
    inputs = Inputs(torch.randint(20, (3, LENGTH)), padding=padding, positions=positions)
    states = model(inputs).states[~padding]
    states.sin().sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"states": states, **grads}


def make_positions(ids):
    """None, permuted ids, or ids of which some are hidden, after a sentence in order."""
    if ids == "permuted":
        return torch.stack([torch.randperm(LENGTH) - 1 for _ in range(3)])
    hidden = torch.arange(LENGTH).repeat(3, 1)
    hidden[1, 2:4] = hidden[2, 7] = -1
    return hidden if ids == "hidden" else None


@pytest.mark.parametrize("ids", [None, "permuted", "hidden"])
@pytest.mark.parametrize("options", TERMS, ids=str)
def test_attention_by_offset_equals_the_plain_map(monkeypatch, options, ids):
    positions = make_positions(ids)
    monkeypatch.setattr(module, "BLOCK", 4)
    # Dropout draws the same units in both: one mask of the weights per layer.
    fast = run_encoder(options, positions)
    monkeypatch.setattr(Offsets, "eager_on_cpu", property(lambda _: False))
    plain = run_encoder(options, positions)
    assert fast.keys() == plain.keys()
    for name, value in plain.items():
        atol = 1e-10 * value.abs().max().item()
        torch.testing.assert_close(fast[name], value, atol=atol, rtol=1e-9, msg=name)
