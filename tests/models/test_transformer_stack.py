import dataclasses

import pytest
import torch
from torch import nn

from toolkit.models.encoder_decoder import StackConfig, TransformerStack

CONFIG = StackConfig(width=4, heads=2, feed_forward_width=8, dropout=0.0)


def build(**changes):
    c, words = dataclasses.replace(CONFIG, **changes), nn.Embedding(7, 4)
    return TransformerStack(c, words, [], cross=False, causal=False).embeddings


def test_token_embedding_scales_words_before_adding_positions():
    embedding = build()
    zeros = torch.zeros(1, 1, dtype=torch.long)
    encodings = torch.tensor([0.0, 0.0, 1.0, 1.0])
    torch.testing.assert_close(embedding(zeros)[0, 0], 2 * embedding.words.weight[0] + encodings)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_token_embedding_of_later_positions_equals_that_of_all(positions):
    embedding = build(positions=positions)
    tokens = torch.arange(7)[None]
    assert torch.equal(embedding(tokens[:, 3:], start=3), embedding(tokens)[:, 3:])
