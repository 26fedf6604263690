"""Properties of every variant of the encoder: padding, batches, positions, gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Inputs, Sizes

SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8, "max_positions": 12}
VARIANTS = {
    "none": {"fixed": False, "dynamic": False},
    "absolute": {"fixed": False, "dynamic": False, "absolute_positions": True},
    "composite": {"radius": 2},
    "composite + key": {"radius": 2, "key_dynamic": True},
    "convolutions": {"radius": 2, "depthwise": True, "convolve": ["query", "key", "value"]},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def encoder(name: str, dtype: torch.dtype = torch.float64) -> Encoder:
    torch.manual_seed(0)
    entry = ARCHITECTURES["composite_bert_tiny"]
    config = dataclasses.replace(entry.config, **SHAPE, **VARIANTS[name])
    model = entry.factory(config, Sizes(tokens=30)).to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def states(model: Encoder, tokens: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
    return model(Inputs(tokens=tokens, **others)).states


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-11, rtol=1e-9)


@every_variant
def test_encoder_states_do_not_depend_on_padding(name):
    model, tokens = encoder(name), torch.randint(30, (1, 7))
    padded = torch.cat([tokens, torch.randint(30, (1, 5))], dim=1)
    padding = torch.arange(12)[None] >= 7
    close(states(model, padded, padding=padding)[:, :7], states(model, tokens))


@every_variant
def test_sentence_of_padding_has_finite_states_and_gradients(name):
    model = encoder(name, torch.float32)
    padding = torch.tensor([[False] * 6, [True] * 6])
    y = states(model, torch.randint(30, (2, 6)), padding=padding)
    y.sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ["none", "composite", "convolutions"])
def test_encoder_without_a_position_table_takes_any_length(name):
    model = encoder(name, torch.float32)
    assert model.max_positions is None
    assert states(model, torch.randint(30, (1, 300))).isfinite().all()


def test_sentence_longer_than_the_position_table_is_rejected():
    model = encoder("absolute")
    assert model.max_positions == 12
    with pytest.raises(ToolkitError, match=r"at most arch.max_positions = 12 tokens .* has 13"):
        states(model, torch.randint(30, (1, 13)))


def test_linear_maps_and_tables_start_normal_with_zero_biases():
    entry = ARCHITECTURES["composite_bert_small"]
    model = entry.factory(dataclasses.replace(entry.config, layers=1), Sizes(tokens=500))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight.numel() > 9999:
            assert module.weight.std().item() == pytest.approx(0.02, rel=0.03)
        if isinstance(module, nn.Linear):
            assert not module.bias.any()


def test_norm_epsilon_reaches_every_norm_and_tied_tables_have_a_new_projection():
    entry = ARCHITECTURES["composite_bert_small"]
    c = dataclasses.replace(entry.config, layers=1, embedding_width=128, norm_epsilon=1e-5)
    model, owner = (entry.factory(c, Sizes(tokens=50)) for _ in range(2))
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 3 and {norm.eps for norm in norms} == {1e-5}
    model.tie_embeddings_to(owner)
    widen = model.embeddings.widen
    assert widen.weight.std().item() == pytest.approx(0.02, rel=0.03) and not widen.bias.any()
