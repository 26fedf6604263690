from __future__ import annotations

import pytest
import torch
from torch import nn

from toolkit import ToolkitError, build_model
from toolkit.models.interface import ArchConfig, Encoded, EncoderModel, Inputs, Sizes


class Lookup(EncoderModel):
    """A user's own encoder: no more than what is required."""

    def __init__(self):
        super().__init__()
        self.width, self.table = 4, nn.Embedding(9, 4)

    @property
    def token_embedding(self):
        return self.table

    def forward(self, inputs, selected=None):
        return Encoded(self.table(inputs.tokens))


def test_sizes_that_the_data_does_not_have_are_zero():
    sizes = Sizes(tokens=9)
    assert (sizes["tokens"], sizes["labels"], sizes["anything"]) == (9, 0, 0)
    assert sizes == {"tokens": 9}


def test_build_model_requires_the_size_of_the_vocabulary():
    with pytest.raises(ToolkitError, match="requires vocabulary_size, or sizes with tokens"):
        build_model("bert_tiny", sizes={"labels": 2})


def test_inputs_are_in_order_in_one_segment_without_padding_by_default():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    assert Inputs(tokens) == (tokens, *[None] * (len(Inputs._fields) - 1))


def test_an_encoder_without_selection_computes_all_states_and_selects():
    encoder, tokens = Lookup(), torch.randint(9, (2, 3))
    states = encoder.select_states(Inputs(tokens), torch.tensor([5, 0]))
    assert torch.equal(states, encoder.table(tokens[[1, 0], [2, 0]]))


def test_an_encoder_reads_any_length_and_predicts_from_all_columns_by_default():
    encoder = Lookup()
    assert encoder.max_positions is encoder.fixed_length is encoder.position_embedding is None
    assert encoder.head_columns == (slice(0, 4), slice(0, 4))
    encoder.load_word_vectors(None)


def test_an_encoder_that_cannot_share_its_embeddings_says_so():
    with pytest.raises(ToolkitError, match="Lookup cannot share embeddings, which task rtd requi"):
        Lookup().tie_embeddings_to(Lookup())


def test_an_architecture_without_smaller_sizes_says_so():
    with pytest.raises(ToolkitError, match="ArchConfig does not define scaled_options"):
        ArchConfig().scaled_options(0.5)
