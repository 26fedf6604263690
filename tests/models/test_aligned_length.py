"""Sentences that are padded to aligned rows have the same states and gradients."""

from __future__ import annotations

import pytest
import torch

from tests.models.test_taco import tiny
from toolkit.models import taco
from toolkit.models.interface import Inputs

SENTENCES, LENGTH = 3, 13


def make_inputs(*, padding, positions):
    torch.manual_seed(0)
    tokens, lengths = torch.randint(1, 20, (SENTENCES, LENGTH)), torch.tensor([LENGTH, 5, 9])
    mask = torch.arange(LENGTH) >= lengths[:, None]
    ids = torch.arange(LENGTH).repeat(SENTENCES, 1)
    ids[:, 1:4], ids[0, 6] = torch.tensor([-1, 3, -1]), 1
    return Inputs(
        tokens,
        ids if positions else None,
        segments=tokens % 2,
        padding=mask if padding else None,
        max_position=LENGTH - 1 if positions else None,
    )


def run(encoder, inputs, selected):
    """The states that are not padding, and the gradients."""
    states = encoder(inputs, selected).states
    if selected is None and inputs.padding is not None:
        states = states[~inputs.padding]
    parameters = list(encoder.parameters())
    return [states, *torch.autograd.grad(states.sin().sum(), parameters, materialize_grads=True)]


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("selected", [None, [0, 4, 14, 30, 14]])
def test_taco_computes_the_same_for_a_multiple_of_eight_tokens(
    padding, positions, selected, monkeypatch
):
    encoder, inputs = tiny(token_types=2), make_inputs(padding=padding, positions=positions)
    selected = None if selected is None else torch.tensor(selected)
    expected = run(encoder, inputs, selected)
    monkeypatch.setitem(taco.LENGTH_MULTIPLE, "cpu", 8)
    assert taco.add_columns(inputs, 512).tokens.shape[1] == LENGTH + 3
    for pair in zip(run(encoder, inputs, selected), expected, strict=True):
        torch.testing.assert_close(*pair, atol=2e-5, rtol=1e-4)


def test_sentences_are_not_padded_beyond_the_table_of_positions(monkeypatch):
    monkeypatch.setitem(taco.LENGTH_MULTIPLE, "cpu", 8)
    encoder, inputs = tiny(max_positions=14), make_inputs(padding=True, positions=False)
    assert encoder(inputs._replace(segments=None)).states.shape[:2] == (SENTENCES, LENGTH)
