import torch

from toolkit.nn.attention import Content, Offsets, SequenceContext, SummedMaps
from toolkit.nn.two_stream_layer import StreamLayer, StreamStates, TwoStreamLayer

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
