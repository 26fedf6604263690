import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.models.transformer_stack import TokenEmbedding, TransformerStackConfig

CONFIG = TransformerStackConfig(width=4, heads=2, feed_forward_width=8, dropout=0.0)


def placed(**changes):
    return TokenEmbedding(dataclasses.replace(CONFIG, **changes)), nn.Embedding(7, 4)


def test_words_are_scaled_before_waves_are_added():
    part, words = placed()
    zeros = torch.zeros(1, 1, dtype=torch.long)
    waves = torch.tensor([0.0, 0.0, 1.0, 1.0])
    torch.testing.assert_close(part(zeros, words)[0, 0], 2 * words.weight[0] + waves)


def test_without_scale_and_positions_words_are_what_they_are():
    part, words = placed(scale_embedding=False, positions="none")
    assert torch.equal(part(torch.arange(7)[None], words)[0], words.weight)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_later_places_have_the_vectors_they_have_among_all(positions):
    part, words = placed(positions=positions)
    tokens = torch.arange(7)[None]
    assert torch.equal(part(tokens[:, 3:], words, 3), part(tokens, words)[:, 3:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 5}, r"arch.width must be a multiple of arch.heads, but 5 = 2 x 2 \+ 1"),
        ({"dropout": 1.0}, r"arch.dropout must be at least 0 and below 1, but is 1.0"),
        ({"activation": "tanh"}, r"arch.activation must be one of relu, gelu, but is 'tanh'"),
        ({"positions": "rope"}, r"arch.positions must be one of sinusoidal, .* but is 'rope'"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ToolkitError, match=message):
        dataclasses.replace(CONFIG, **changes)
