from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.models.test_interface import Lookup
from toolkit import ToolkitError, build_model
from toolkit.models.heads import (
    DetectionHead,
    LastLayer,
    LayerMixing,
    OptionHead,
    Pooler,
    SentenceHead,
    SpanHead,
    build_features,
)
from toolkit.models.interface import Inputs


def test_detection_head_gives_one_score_per_token():
    torch.manual_seed(0)
    head, states = DetectionHead(6), torch.randn(5, 6)
    inner = F.gelu(states @ head.transform.weight.T + head.transform.bias)
    expected = [head.score.weight[0] @ row + head.score.bias[0] for row in inner]
    torch.testing.assert_close(head(states), torch.stack(expected))


def test_sentence_head_is_linear_in_the_pooled_state():
    torch.manual_seed(0)
    pooler, head, states = Pooler(6), SentenceHead(6, 3, dropout=0.1).eval(), torch.randn(5, 6)
    pooled = torch.tanh(states @ pooler.weight.T + pooler.bias)
    expected = pooled @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(head(pooler(states)), expected)
    assert not torch.equal(head.train()(states), head(states))


def test_option_head_is_linear_with_dropout_in_training():
    torch.manual_seed(0)
    head, states = OptionHead(6, dropout=0.1).eval(), torch.randn(5, 6)
    expected = states @ head.output.weight[0] + head.output.bias
    torch.testing.assert_close(head(states), expected)
    assert not torch.equal(head.train()(states), head(states))


def test_answer_heads_compute_in_fp32_under_autocast():
    torch.manual_seed(0)
    spans, options, states = SpanHead(6), OptionHead(6, dropout=0.0), torch.randn(2, 5, 6)
    number = SentenceHead(6, 1, dropout=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        scores, single, numbers = spans(states), options(states[0]), number(states[0])
    torch.testing.assert_close(numbers, states[0] @ number.output.weight.T + number.output.bias)
    torch.testing.assert_close(scores, states @ spans.weight.T + spans.bias)
    torch.testing.assert_close(single, states[0] @ options.output.weight[0] + options.output.bias)


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
