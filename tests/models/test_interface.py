from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from toolkit import ToolkitError, build_model
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Encoded, EncoderModel, Inputs


class Lookup(EncoderModel):
    """The smallest encoder that a user may define."""

    def __init__(self):
        super().__init__()
        self.width, self.table = 4, nn.Embedding(9, 4)

    @property
    def token_embedding(self):
        return self.table

    def forward(self, inputs, selected=None):
        return Encoded(self.table(inputs.tokens))


def test_encoder_without_selection_selects_from_all_states():
    encoder, tokens = Lookup(), torch.randint(9, (2, 3))
    states = encoder.select_states(Inputs(tokens), torch.tensor([5, 0]))
    assert torch.equal(states, encoder.table(tokens[[1, 0], [2, 0]]))


def test_encoder_without_tie_embeddings_to_is_rejected():
    with pytest.raises(ToolkitError, match="Lookup cannot share embeddings, which task rtd requi"):
        Lookup().tie_embeddings_to(Lookup())


@pytest.mark.parametrize(
    ("arch", "ids", "message"),
    [
        ("bert_tiny", [0, 127], None),
        ("bert_tiny", [0, 128], r"position ids must lie in 0 \.\. 127, but range from 0 to 128"),
        ("bert_tiny", [-1, 2], r"must lie in 0 \.\. 127, but range from -1 to 2"),
        ("taco_tiny", [-1, 511], None),
        ("taco_tiny", [-2, 1], r"0 \.\. 511, or be -1 where hidden, but range from -2 to 1"),
        ("composite_bert_tiny", [0, 10**6], None),
    ],
)
def test_position_ids_must_be_rows_of_the_table(arch, ids, message):
    encoder = build_model(arch, vocabulary_size=9)
    inputs = Inputs(torch.zeros(1, 2, dtype=torch.long), positions=torch.tensor([ids]))
    rejected = pytest.raises(ToolkitError, match=message) if message else nullcontext()
    with rejected:
        encoder.check_ids(inputs)


@pytest.mark.parametrize("tokens", [[0, 9], [-1, 3]])
def test_token_ids_must_be_rows_of_the_table(tokens):
    with pytest.raises(ToolkitError, match=r"token ids must lie in 0 \.\. 8 for this model"):
        Lookup().check_ids(Inputs(torch.tensor([tokens])))


def test_sizes_of_an_architecture_have_its_options():
    for name, sizes in ARCHITECTURES.families().items():
        kinds = {type(ARCHITECTURES[f"{name}{size}"].config) for size in ("", *sizes)}
        assert len(kinds) == 1, name
