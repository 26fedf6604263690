"""Layers, embeddings, initial values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention import Content, Offsets, SequenceContext, SummedMaps
from toolkit.nn.attention.absolute import (
    PositionTable,
    sinusoidal_encodings,
)
from toolkit.nn.embeddings import Embeddings
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


def embeddings(types=2, hidden=False):
    torch.manual_seed(0)
    parts = nn.Embedding(9, 4), nn.Embedding(types, 4), PositionTable(6, 4, hidden=hidden)
    return Embeddings(*parts, nn.LayerNorm(4), dropout=0.0, width=4)


def test_embeddings_are_the_normalized_sum_of_words_types_and_positions():
    table, tokens = embeddings(), torch.tensor([[3, 1, 2]])
    segments = torch.tensor([[0, 0, 1]])
    parts = table.words(tokens) + table.types(segments) + table.positions.weight[:3]
    torch.testing.assert_close(table(tokens, None, segments), table.norm(parts))


def test_single_token_type_serves_both_texts_of_a_pair():
    table, tokens = embeddings(types=1), torch.tensor([[3, 1, 2]])
    segments = torch.tensor([[0, 0, 1]])
    torch.testing.assert_close(table(tokens, None, segments), table(tokens))


def test_position_ids_in_order_equal_none():
    table, tokens = embeddings(hidden=True), torch.tensor([[3, 1, 2]])
    torch.testing.assert_close(table(tokens), table(tokens, torch.tensor([[0, 1, 2]])))


def test_hidden_position_has_the_last_row():
    table, ids = PositionTable(6, 4, hidden=True), torch.tensor([[0, -1, 5]])
    vectors = table.vectors(torch.zeros(1, 3, 4), ids)
    torch.testing.assert_close(vectors, table.weight[None, [0, 6, 5]])


@pytest.mark.parametrize(
    ("ids", "hidden", "message"),
    [
        ([0, -1], False, r"position ids must lie in 0 \.\. 6, but range from -1 to 0\."),
        ([0, 6], True, r"lie in 0 \.\. 5, or be -1 where hidden, but range from 0 to 6\."),
        ([-2, 3], True, r"lie in 0 \.\. 5, or be -1 where hidden, but range from -2 to 3\."),
    ],
)
def test_position_ids_outside_the_table_are_rejected(ids, hidden, message):
    table, ids = PositionTable(7 - hidden, 4, hidden=hidden), torch.tensor([ids])
    with pytest.raises(ToolkitError, match=message):
        table.vectors(torch.zeros(1, ids.shape[1], 4), ids)


CPU = torch.device("cpu")


def test_sinusoidal_encodings_follow_their_formula():
    encodings = sinusoidal_encodings(0, 700, 6, CPU)
    for p, c in [(0, 0), (1, 0), (5, 1), (699, 2)]:
        angle = p / 10_000 ** (2 * c / 6)
        assert math.isclose(encodings[p, c], math.sin(angle), abs_tol=1e-6)
        assert math.isclose(encodings[p, 3 + c], math.cos(angle), abs_tol=1e-6)


def test_sinusoidal_encodings_of_a_range_equal_those_of_all_positions():
    assert torch.equal(
        sinusoidal_encodings(600, 603, 8, CPU), sinusoidal_encodings(0, 2000, 8, CPU)[600:603]
    )


def test_sinusoidal_encodings_of_odd_width_omit_the_last_cosine():
    assert sinusoidal_encodings(0, 4, 5, CPU).shape == (4, 5)


def test_sinusoidal_encodings_cached_in_inference_work_in_training():
    with torch.inference_mode():
        sinusoidal_encodings(0, 3, 10, CPU)
    x = torch.ones(3, 10, requires_grad=True)
    (x * sinusoidal_encodings(0, 3, 10, CPU)).sum().backward()
