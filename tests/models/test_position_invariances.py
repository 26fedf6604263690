"""States depend on position ids, never on indices; with relative terms on their differences."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.position_models import VOCABULARY, build_encoder, make_batch
from toolkit.models.interface import Inputs

RELATIVE = {
    **{name: {"positions": [name]} for name in ("rope", "alibi", "t5", "shaw", "xl", "deberta")},
    **{name: {"positions": [name]} for name in ("fixed", "composite")},
    "shaw + values": {"positions": ["shaw"], "shaw_values": True},
    "composite + key": {"key_dynamic": True},
    "rope and others": {"positions": ["rope", "alibi", "t5", "composite"]},
    "deberta and others": {"positions": ["deberta", "rope", "alibi", "t5", "fixed"]},
}
ABSOLUTE = {
    **{name: {"positions": [name]} for name in ("learned", "sinusoidal")},
    "learned, rope": {"positions": ["learned", "rope"]},
}
NONE = {"none": {"positions": ["none"]}}
EVERY = RELATIVE | ABSOLUTE | NONE


def build(name, **options):
    return build_encoder(**EVERY[name], **{"layers": 2} | options)[0]


def states(model, inputs):
    """States of all tokens, 0 at padding."""
    y = model(inputs).states
    return y if inputs.padding is None else y.masked_fill(inputs.padding[..., None], 0.0)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("shift", [-3, 200])
@pytest.mark.parametrize("name", [*RELATIVE, "none"])
def test_states_of_relative_terms_do_not_depend_on_a_constant_added_to_all_ids(name, shift):
    model, inputs = build(name), make_batch()
    shifted = inputs._replace(positions=inputs.positions + shift)
    close(states(model, shifted), states(model, inputs))


@pytest.mark.parametrize("name", ABSOLUTE)
def test_states_of_absolute_terms_depend_on_a_constant_added_to_all_ids(name):
    model, inputs = build(name), make_batch("permuted")
    shifted = inputs._replace(positions=inputs.positions + 1)
    changes = (states(model, shifted) - states(model, inputs))[~inputs.padding]
    assert changes.abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("name", EVERY)
def test_states_depend_on_position_ids_except_without_terms(name):
    model, inputs = build(name), make_batch("in order", "hidden")
    swapped = inputs._replace(positions=inputs.positions[:, [1, 0, 2, 3, 4, 5]])
    changed = (states(model, swapped) - states(model, inputs)).abs().amax(-1)[:, :4].min()
    assert changed < 1e-12 if name == "none" else changed > 1e-6


@pytest.mark.parametrize("name", EVERY)
def test_states_depend_on_the_direction_of_offsets_except_with_alibi_alone(name):
    model, inputs = build(name), make_batch("permuted", "apart")
    reverse = inputs._replace(positions=31 - inputs.positions)
    changes = (states(model, reverse) - states(model, inputs)).abs().max()
    assert changes < 1e-12 if name in ("alibi", "none") else changes > 1e-6


@pytest.mark.parametrize("name", EVERY)
def test_states_do_not_depend_on_padding_and_its_ids(name):
    model, inputs = build(name), make_batch()
    other = Inputs(
        torch.where(inputs.padding, VOCABULARY - 1 - inputs.tokens, inputs.tokens),
        torch.where(inputs.padding, 31 - inputs.positions.abs(), inputs.positions),
        padding=inputs.padding,
    )
    close(states(model, other), states(model, inputs))
    alone = Inputs(inputs.tokens[2:3, :4], inputs.positions[2:3, :4])
    close(states(model, alone), states(model, inputs)[2:3, :4])


@pytest.mark.parametrize("name", EVERY)
def test_selected_states_equal_those_of_all_tokens(name):
    model, inputs = build(name), make_batch()
    selected = torch.tensor([26, 3, 3, 0, 12])
    close(model.select_states(inputs, selected), states(model, inputs).flatten(0, 1)[selected])


@pytest.mark.parametrize("name", EVERY)
def test_states_and_gradients_are_reproducible_to_the_bit(name):
    inputs = make_batch()

    def run():
        model = build(name, attention_dropout=0.2, dropout=0.2).float().train()
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16):
            y = states(model, inputs)
        y.float().square().sum().backward()
        return [y, *(p.grad for p in model.parameters())]

    for one, other in zip(run(), run(), strict=True):
        assert torch.equal(one, other)
