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


def inputs(heads, padding=None):
    q, k, v = (torch.randn(BATCH, heads, LENGTH, WIDTH) for _ in range(3))
    sequence = SequenceContext(Offsets(None, LENGTH, q.device), padding)
    return AttentionInputs(q, k, v, q.transpose(1, 2).flatten(2), sequence)


def mixed(**options):
    torch.manual_seed(0)
    heads = {"word_heads": WORDS, "position_heads": POSITIONS}
    terms = [Content(WIDTH)], [Content(WIDTH)]
    return MixedMaps(*terms, 0.0, **heads, uses_previous_scores=True, **options)


def test_mixed_maps_have_channels_of_words_then_positions_then_previous_scores():
    maps, words, positions = mixed(), inputs(WORDS), inputs(POSITIONS)
    previous = torch.randn(BATCH, WORDS + POSITIONS, LENGTH, LENGTH)
    channels = torch.cat([Content(WIDTH)(words), Content(WIDTH)(positions), previous], 1)
    scores = maps(words, positions, previous).scores
    torch.testing.assert_close(scores, maps.slope(maps.mix(channels)))


def test_summed_maps_add_terms_and_previous_scores():
    maps = SummedMaps([Content(WIDTH), Content(WIDTH)], [Content(WIDTH)], 0.0)
    words, positions = inputs(WORDS), inputs(POSITIONS)
    scores = maps(words, positions, None).scores
    torch.testing.assert_close(scores[:, :WORDS], 2 * Content(WIDTH)(words))
    torch.testing.assert_close(scores[:, WORDS:], Content(WIDTH)(positions))
    torch.testing.assert_close(maps(words, positions, scores).scores, 2 * scores)


@pytest.mark.parametrize("padded", [False, True])
def test_two_stream_maps_mask_padding_in_the_weights_only(padded):
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[1, 3:] = padded
    scores = torch.randn(BATCH, 5, LENGTH, LENGTH)
    before = scores.clone()
    weights = mixed().weights(scores, padding if padded else None)
    assert torch.equal(scores, before)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 5, LENGTH))
    assert bool(weights[1, :, :, 3:].any()) != padded


def test_two_stream_maps_split_the_weights_into_those_of_words_and_of_positions():
    maps, words, positions = mixed(), inputs(WORDS), inputs(POSITIONS)
    previous = torch.randn(BATCH, WORDS + POSITIONS, LENGTH, LENGTH)
    found = maps(words, positions, previous)
    assert torch.equal(torch.cat(found[1:], 1), found.scores.softmax(-1))
    assert found.words.shape[1] == WORDS
