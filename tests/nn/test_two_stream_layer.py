import torch

from toolkit.nn.attention import Content, Offsets, SequenceContext, SummedMaps
from toolkit.nn.two_stream_layer import StreamLayer, StreamStates, TwoStreamLayer

BATCH, LENGTH, WORDS, POSITIONS = 2, 5, 6, 4


def layer(keeps=True):
    torch.manual_seed(0)
    maps = SummedMaps([Content(3)], [Content(3)], 0.0)
    return TwoStreamLayer(
        StreamLayer(WORDS, 3, 3, 0.0), StreamLayer(POSITIONS, 2, 3, 0.0), maps, keeps
    )


def given():
    torch.manual_seed(1)
    x = StreamStates(torch.randn(BATCH, LENGTH, WORDS), torch.randn(BATCH, LENGTH, POSITIONS))
    return x, SequenceContext(Offsets(None, LENGTH, x.words.device))


def test_a_stream_averages_its_own_values_by_its_own_heads():
    one, (x, places) = layer(), given()
    found = one(x, places)
    words = one.words.project(x.words, places)
    context = (found.scores[:, :3].softmax(-1) @ words.v).transpose(1, 2).flatten(2)
    after = one.words.after_attention(x.words, one.words.output(context))
    expected = one.words.after_feed_forward(after, one.words.feed_forward(after))
    torch.testing.assert_close(found.words, expected)
    assert found.positions.shape == x.positions.shape


def test_scores_go_up_only_where_the_layer_above_wants_them():
    x, places = given()
    assert layer()(x, places).scores.shape == (BATCH, 5, LENGTH, LENGTH)
    assert layer(keeps=False)(x, places).scores is None


def test_chosen_places_leave_the_layer_alone():
    one, (x, places) = layer(), given()
    chosen = torch.tensor([7, 2])
    whole, some = one(x, places), one(x, places, chosen)
    torch.testing.assert_close(some.words[0], whole.words.flatten(0, 1)[chosen])
    torch.testing.assert_close(some.positions[0], whole.positions.flatten(0, 1)[chosen])
