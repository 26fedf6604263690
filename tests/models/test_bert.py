"""`bert` against the implementation everybody has."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Inputs, Sizes

transformers = pytest.importorskip("transformers")


def same(ours: nn.Module, theirs: nn.Module) -> None:
    ours.load_state_dict(theirs.state_dict())


def copied(model: Encoder, hf: nn.Module) -> None:
    """HF's weights into ours."""
    e = model.embeddings
    same(e.words, hf.embeddings.word_embeddings)
    same(e.types, hf.embeddings.token_type_embeddings)
    same(e.positions, hf.embeddings.position_embeddings)
    same(e.norm, hf.embeddings.LayerNorm)
    for ours, theirs in zip(model.layers, hf.encoder.layer, strict=True):
        parts = theirs.attention.self
        three = (parts.query, parts.key, parts.value)
        together = {
            name: torch.cat([part.state_dict()[name] for part in three])
            for name in ("weight", "bias")
        }
        ours.attention.project.qkv.load_state_dict(together)
        same(ours.attention.output, theirs.attention.output.dense)
        same(ours.after_attention.norm, theirs.attention.output.LayerNorm)
        same(ours.feed_forward.wide, theirs.intermediate.dense)
        same(ours.feed_forward.back, theirs.output.dense)
        same(ours.after_feed_forward.norm, theirs.output.LayerNorm)


def test_bert_equals_hugging_faces_bert_with_the_same_weights():
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
    copied(model, hf)
    tokens, segments = torch.randint(50, (3, 11)), torch.randint(2, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    want = hf(input_ids=tokens, token_type_ids=segments, attention_mask=~padding)
    got = model(Inputs(tokens=tokens, segments=segments, padding=padding)).states
    torch.testing.assert_close(
        got[~padding], want.last_hidden_state[~padding], atol=1e-5, rtol=1e-5
    )
