"""States of lower layers, in every architecture that returns them."""

from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.models.interface import Inputs, LayeredEncoder

ARCHITECTURES = {
    "bert_tiny": {"layers": 3, "embedding_width": 8},
    "composite_bert_tiny": {"layers": 3},
    "convbert_tiny": {"layers": 3},
    "taco_tiny": {"layers": 3},
    "conv_san": {"layers": 3, "character_width": 0, "fixed_length": 6},
}
every_architecture = pytest.mark.parametrize("arch", ARCHITECTURES)


@pytest.fixture
def encoder(arch):
    torch.manual_seed(0)
    return build_model(arch, vocabulary_size=30, **ARCHITECTURES[arch]).eval()


@every_architecture
def test_last_layer_states_are_those_of_forward(arch, encoder):
    inputs = Inputs(torch.randint(30, (2, 6)))
    states = encoder.layer_states(inputs)
    assert isinstance(encoder, LayeredEncoder) and len(states) == 4
    assert torch.equal(states[-1], encoder(inputs).states)
    assert all(state.shape == (2, 6, encoder.width) for state in states)


@every_architecture
def test_lower_layer_states_are_those_of_a_shorter_encoder(arch, encoder):
    inputs = Inputs(torch.randint(30, (2, 6)))
    whole = encoder.layer_states(inputs)
    del encoder.layers[2]
    assert torch.equal(whole[2], encoder(inputs).states)
