"""TACO: published sizes, hidden positions and rejected configs."""

from __future__ import annotations

import torch

from toolkit import build_model
from toolkit.models.interface import Inputs


def tiny(**changes):
    torch.manual_seed(1)
    changes = {"dropout": 0.0, "attention_dropout": 0.0} | changes
    model = build_model("taco_tiny", vocabulary_size=50, **changes).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    return model


def swapped_states():
    """States before and after swapping the words at two hidden positions, in the same order."""
    model, tokens = tiny(), torch.arange(9)[None]
    ids, order = tokens.clone(), torch.tensor([0, 1, 6, 3, 4, 5, 2, 7, 8])
    ids[:, [2, 6]] = -1
    one = model(Inputs(tokens, positions=ids)).states
    other = model(Inputs(tokens[:, order], positions=ids)).states
    return one, other[:, order]


def test_swapped_words_at_hidden_positions_have_swapped_states():
    torch.testing.assert_close(*swapped_states(), rtol=0, atol=1e-6)
