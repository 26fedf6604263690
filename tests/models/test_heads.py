from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.models.test_interface import Lookup
from toolkit import ToolkitError, build_model
from toolkit.models.heads import DetectionHead, Features, Pooler, PreciseLinear, SentenceHead
from toolkit.models.interface import Inputs

SELECTED = torch.tensor([7, 0, 3])


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


def test_answer_heads_compute_in_fp32_under_autocast():
    torch.manual_seed(0)
    head, states = PreciseLinear(6, 2), torch.randn(2, 5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        scores = head(states)
    torch.testing.assert_close(scores, states @ head.weight.T + head.bias)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return build_model("composite_bert_tiny", vocabulary_size=30, layers=3).eval()


@pytest.fixture
def inputs():
    return Inputs(torch.randint(30, (2, 5)))


def test_layer_mixing_equals_the_equation_token_by_token(encoder, inputs):
    mixing, layers = Features(encoder, layer_mixing=True), encoder.layer_states(inputs)
    torch.testing.assert_close(mixing(encoder, inputs), torch.stack(layers).mean(0))
    torch.nn.init.normal_(mixing.weights)
    torch.nn.init.constant_(mixing.scale, 1.7)
    shares = F.softmax(mixing.weights, 0)
    mixed, selected = mixing(encoder, inputs), mixing(encoder, inputs, SELECTED)
    for b in range(2):
        for i in range(5):
            expected = 1.7 * sum(s * layer[b, i] for s, layer in zip(shares, layers, strict=True))
            torch.testing.assert_close(mixed[b, i], expected)
    assert torch.equal(selected, mixed.flatten(0, 1)[SELECTED])


def test_features_are_the_last_layers_states_by_default(encoder, inputs):
    features = Features(encoder, layer_mixing=False)
    assert not list(features.parameters())
    assert torch.equal(features(encoder, inputs), encoder(inputs).states)
    selected = features(encoder, inputs, SELECTED)
    assert torch.equal(selected, encoder.select_states(inputs, SELECTED))


def test_layer_mixing_requires_an_encoder_that_returns_the_states_of_its_layers():
    with pytest.raises(ToolkitError, match=r"layer_mixing requires .* Lookup does not return"):
        Features(Lookup(), layer_mixing=True)
