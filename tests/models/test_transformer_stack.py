import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.models.encoder_decoder import StackConfig, build_embeddings

CONFIG = StackConfig(width=4, heads=2, feed_forward_width=8, dropout=0.0)


def build(**changes):
    return build_embeddings(dataclasses.replace(CONFIG, **changes), nn.Embedding(7, 4))


def test_token_embedding_scales_words_before_adding_positions():
    embedding = build()
    zeros = torch.zeros(1, 1, dtype=torch.long)
    encodings = torch.tensor([0.0, 0.0, 1.0, 1.0])
    torch.testing.assert_close(embedding(zeros)[0, 0], 2 * embedding.words.weight[0] + encodings)


def test_token_embedding_without_scale_and_positions_is_the_table():
    embedding = build(scale_embedding=False, positions="none")
    assert torch.equal(embedding(torch.arange(7)[None])[0], embedding.words.weight)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_token_embedding_of_later_positions_equals_that_of_all(positions):
    embedding = build(positions=positions)
    tokens = torch.arange(7)[None]
    assert torch.equal(embedding(tokens[:, 3:], start=3), embedding(tokens)[:, 3:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 5}, r"arch.width must be a multiple of arch.heads, but 5 = 2 x 2 \+ 1"),
        ({"dropout": 1.0}, r"arch.dropout must be at least 0 and below 1, but is 1.0"),
        ({"activation": "tanh"}, r"arch.activation must be one of relu, gelu, but is 'tanh'"),
        ({"positions": ["rope"]}, r"arch.positions must not contain rope without self-attention"),
    ],
)
def test_transformer_stack_config_rejects_impossible_shapes(changes, message):
    with pytest.raises(ToolkitError, match=message):
        dataclasses.replace(CONFIG, **changes)
