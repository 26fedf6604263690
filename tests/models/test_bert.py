"""`bert` compared with Hugging Face's."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Inputs, Sizes

transformers = pytest.importorskip("transformers")


def copy_weights(module: nn.Module, source: nn.Module) -> None:
    module.load_state_dict(source.state_dict())


def copy_model(model: Encoder, hf: nn.Module) -> None:
    e = model.embeddings
    copy_weights(e.words, hf.embeddings.word_embeddings)
    copy_weights(e.types, hf.embeddings.token_type_embeddings)
    copy_weights(e.positions, hf.embeddings.position_embeddings)
    copy_weights(e.norm, hf.embeddings.LayerNorm)
    for layer, hf_layer in zip(model.layers, hf.encoder.layer, strict=True):
        parts = hf_layer.attention.self
        for name in ("weight", "bias"):
            tensors = [getattr(part, name).data for part in (parts.query, parts.key, parts.value)]
            getattr(layer.attention.project.qkv, name).data = torch.cat(tensors)
        copy_weights(layer.attention.output, hf_layer.attention.output.dense)
        copy_weights(layer.after_attention.norm, hf_layer.attention.output.LayerNorm)
        copy_weights(layer.feed_forward.wide, hf_layer.intermediate.dense)
        copy_weights(layer.feed_forward.back, hf_layer.output.dense)
        copy_weights(layer.after_feed_forward.norm, hf_layer.output.LayerNorm)


def test_bert_states_equal_hugging_faces():
    torch.manual_seed(0)
    hf = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=16,
            initializer_range=0.5,
        ),
        add_pooling_layer=False,
    ).eval()
    entry = ARCHITECTURES["bert_tiny"]
    shape = {"layers": 3, "width": 32, "heads": 4, "embedding_width": None}
    config = dataclasses.replace(entry.config, **shape, feed_forward_width=64, max_positions=16)
    model = entry.factory(config, Sizes(tokens=50)).eval()
    copy_model(model, hf)
    tokens, segments = torch.randint(50, (3, 11)), torch.randint(2, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    expected = hf(input_ids=tokens, token_type_ids=segments, attention_mask=~padding)
    states = model(Inputs(tokens=tokens, segments=segments, padding=padding)).states
    torch.testing.assert_close(
        states[~padding], expected.last_hidden_state[~padding], atol=1e-5, rtol=1e-5
    )
