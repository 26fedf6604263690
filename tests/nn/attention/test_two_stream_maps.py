import pytest
import torch

from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    MixedMaps,
    Offsets,
    SequenceContext,
    SummedMaps,
)

BATCH, LENGTH, WIDTH, WORDS, POSITIONS = 2, 5, 4, 3, 2


def projected(heads, padding=None):
    q, k, v = (torch.randn(BATCH, heads, LENGTH, WIDTH) for _ in range(3))
    places = SequenceContext(Offsets(None, LENGTH, q.device), padding)
    return AttentionInputs(q, k, v, q.transpose(1, 2).flatten(2), places)


def mixed(**options):
    torch.manual_seed(0)
    heads = {"word_heads": WORDS, "position_heads": POSITIONS}
    terms = [Content(WIDTH)], [Content(WIDTH)]
    return MixedMaps(*terms, 0.0, **heads, uses_previous_scores=True, **options)


def test_channels_are_words_then_positions_then_the_maps_below():
    maps, words, positions = mixed(), projected(WORDS), projected(POSITIONS)
    below = torch.randn(BATCH, WORDS + POSITIONS, LENGTH, LENGTH)
    channels = torch.cat([Content(WIDTH)(words), Content(WIDTH)(positions), below], 1)
    torch.testing.assert_close(maps(words, positions, below), maps.slope(maps.mix(channels)))


def test_without_the_convolution_maps_are_added():
    maps = SummedMaps([Content(WIDTH), Content(WIDTH)], [Content(WIDTH)], 0.0)
    words, positions = projected(WORDS), projected(POSITIONS)
    found = maps(words, positions, None)
    torch.testing.assert_close(found[:, :WORDS], 2 * Content(WIDTH)(words))
    torch.testing.assert_close(found[:, WORDS:], Content(WIDTH)(positions))
    torch.testing.assert_close(maps(words, positions, found), 2 * found)


@pytest.mark.parametrize("padded", [False, True])
def test_padding_is_hidden_by_the_weights_and_not_before(padded):
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[1, 3:] = padded
    scores = torch.randn(BATCH, 5, LENGTH, LENGTH)
    before = scores.clone()
    weights = mixed().weights(scores, padding if padded else None)
    assert torch.equal(scores, before)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 5, LENGTH))
    assert bool(weights[1, :, :, 3:].any()) != padded
