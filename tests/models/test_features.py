from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.models.test_interface import Lookup
from toolkit import ToolkitError, build_model
from toolkit.models.features import LastLayer, LayerMixing, build_features
from toolkit.models.interface import Inputs

SELECTED = torch.tensor([7, 0, 3])


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return build_model("composite_bert_tiny", vocabulary_size=30, layers=3).eval()


@pytest.fixture
def inputs():
    return Inputs(torch.randint(30, (2, 5)))


@pytest.fixture
def mixing(encoder):
    mixing = LayerMixing(encoder)
    torch.nn.init.normal_(mixing.weights)
    torch.nn.init.constant_(mixing.scale, 1.7)
    return mixing


def test_layer_mixing_equals_the_equation_token_by_token(encoder, inputs, mixing):
    shares, layers = F.softmax(mixing.weights, 0), encoder.layer_states(inputs)
    mixed, selected = mixing(encoder, inputs), mixing.select(encoder, inputs, SELECTED)
    for b in range(2):
        for i in range(5):
            expected = 1.7 * sum(s * layer[b, i] for s, layer in zip(shares, layers, strict=True))
            torch.testing.assert_close(mixed[b, i], expected)
    assert torch.equal(selected, mixed.flatten(0, 1)[SELECTED])


def test_layer_mixing_starts_as_the_mean_of_all_layers(encoder, inputs):
    mean = torch.stack(encoder.layer_states(inputs)).mean(0)
    torch.testing.assert_close(LayerMixing(encoder)(encoder, inputs), mean)


def test_layer_mixing_has_the_gradients_of_finite_differences(mixing):
    states = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    weights, scale = (p.detach().double().requires_grad_() for p in mixing.parameters())

    def mix(weights, scale, *states):
        mixing.__dict__["_parameters"].update(weights=weights, scale=scale)
        return mixing.mix(list(states))

    assert torch.autograd.gradcheck(mix, (weights, scale, *states))


def test_layer_mixing_sums_states_of_half_precision_in_fp32(mixing):
    states = [torch.randn(2, 3).bfloat16() for _ in range(4)]
    assert mixing.mix(states).dtype == torch.float32


def test_features_are_the_last_layers_states_by_default(encoder, inputs):
    features = build_features(encoder, layer_mixing=False)
    assert isinstance(features, LastLayer) and not list(features.parameters())
    assert torch.equal(features(encoder, inputs), encoder(inputs).states)
    selected = features.select(encoder, inputs, SELECTED)
    assert torch.equal(selected, encoder.select_states(inputs, SELECTED))


def test_layer_mixing_requires_an_encoder_that_returns_the_states_of_its_layers():
    message = "layer_mixing requires the states of all layers, which Lookup does not return. Leave"
    with pytest.raises(ToolkitError, match=message):
        build_features(Lookup(), layer_mixing=True)
