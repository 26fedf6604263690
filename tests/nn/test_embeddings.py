from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention.absolute import (
    PositionTable,
    check_length,
    sinusoidal_encodings,
)
from toolkit.nn.embeddings import Embeddings


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


def test_sentence_longer_than_the_position_table_is_rejected():
    message = r"at most arch.max_positions = 6 tokens with a table of positions"
    with pytest.raises(ToolkitError, match=message):
        embeddings(hidden=True)(torch.zeros(1, 7, dtype=torch.long))
    check_length(6, 6)


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
