from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.models.interface import Inputs
from toolkit.nn.attention import Content, Offsets, SequenceContext, SummedMaps
from toolkit.nn.layers import (
    FeedForward,
    GroupedLinear,
    LayerStack,
    StreamLayer,
    StreamStates,
    TwoStreamLayer,
)


def test_group_depends_on_its_channels_only():
    torch.manual_seed(0)
    network, x = FeedForward(8, 16, groups=2), torch.randn(1, 3, 8)
    changed_x = x.clone()
    changed_x[..., :4] += 1.0
    differs = (network(x) != network(changed_x)).any(1)[0]
    assert differs.tolist() == [True] * 4 + [False] * 4


def test_groups_divide_the_size_of_matrices_and_not_of_biases():
    sizes = [sum(p.numel() for p in FeedForward(8, 16, groups).parameters()) for groups in (1, 4)]
    assert sizes == [2 * 8 * 16 + 24, 2 * 8 * 16 // 4 + 24]


def test_grouped_matrices_have_the_initialization_of_linear_ones():
    torch.manual_seed(0)
    part = GroupedLinear(256, 512, 2)
    assert part.weight.std().item() == pytest.approx(0.02, rel=0.02) and not part.bias.any()


def gradients(arch, checkpointed, precision):
    """Gradients of an encoder in training, with padding and selected tokens, after two passes."""
    torch.manual_seed(1)
    encoder = build_model(arch, vocabulary_size=50, width=32, heads=2)
    encoder.layers.checkpoint_activations = checkpointed
    tokens = torch.randint(50, (3, 9))
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 6:] = True
    torch.manual_seed(2)
    for _ in range(2):
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            states = encoder(Inputs(tokens, padding=padding), torch.tensor([0, 4, 10])).states
        states.float().square().sum().backward()
    return {name: p.grad for name, p in encoder.named_parameters()}


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "bert_tiny"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_checkpointed_layers_have_equal_gradients_with_dropout(arch, precision):
    plain, recomputed = gradients(arch, False, precision), gradients(arch, True, precision)
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)


def test_checkpointed_layer_runs_twice_in_training_and_once_in_inference():
    class CountingLinear(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x).tanh()

    layers = LayerStack([CountingLinear(2, 2)])
    layers.checkpoint_activations = True
    layers.call_layer(layers[0], torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert layers[0].calls == 2
    with torch.no_grad():
        layers.call_layer(layers[0], torch.ones(1, 2))
    assert layers[0].calls == 3


BATCH, LENGTH, WORDS, POSITIONS = 2, 5, 6, 4


def build_layer(passes_scores=True):
    torch.manual_seed(0)
    maps = SummedMaps([Content(3)], [Content(3)], 0.0)
    return TwoStreamLayer(
        StreamLayer(WORDS, 3, 3, 0.0), StreamLayer(POSITIONS, 2, 3, 0.0), maps, passes_scores
    )


def inputs():
    torch.manual_seed(1)
    x = StreamStates(torch.randn(BATCH, LENGTH, WORDS), torch.randn(BATCH, LENGTH, POSITIONS))
    return x, SequenceContext(Offsets(None, LENGTH, x.words.device))


def test_stream_averages_its_values_with_its_heads():
    layer, (x, sequence) = build_layer(), inputs()
    y = layer(x, sequence)
    words = layer.words.project(x.words, sequence)
    context = (y.scores[:, :3].softmax(-1) @ words.v).transpose(1, 2).flatten(2)
    normed = layer.words.after_attention(x.words, layer.words.output(context))
    expected = layer.words.after_feed_forward(normed, layer.words.feed_forward(normed))
    torch.testing.assert_close(y.words, expected)
    assert y.positions.shape == x.positions.shape


def test_two_stream_layer_returns_scores_only_if_they_are_passed_on():
    x, sequence = inputs()
    assert build_layer()(x, sequence).scores.shape == (BATCH, 5, LENGTH, LENGTH)
    assert build_layer(passes_scores=False)(x, sequence).scores is None


def test_two_stream_layer_returns_selected_tokens_only():
    layer, (x, sequence) = build_layer(), inputs()
    selected = torch.tensor([7, 2])
    whole, some = layer(x, sequence), layer(x, sequence, selected)
    torch.testing.assert_close(some.words[0], whole.words.flatten(0, 1)[selected])
    torch.testing.assert_close(some.positions[0], whole.positions.flatten(0, 1)[selected])
