"""`transformer_lm` compared with Hugging Face's GPT and GPT-2, and published sizes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Sizes

SHAPE = {"layers": 3, "width": 32, "heads": 4, "feed_forward_width": 128, "max_positions": 20}
NAMES = {"transformer_lm_gpt": "OpenAIGPT", "transformer_lm_gpt2": "GPT2"}


def copy_transposed(linear, conv1d):
    linear.weight.data, linear.bias.data = conv1d.weight.data.T.contiguous(), conv1d.bias.data


def copy_model(model, words, positions, hf):
    model.token_embedding.load_state_dict(words.state_dict())
    model.decoder.embeddings.positions.load_state_dict(positions.state_dict())
    for layer, block in zip(model.decoder.layers, hf.h, strict=True):
        copy_transposed(layer.self_attention.project.qkv, block.attn.c_attn)
        copy_transposed(layer.self_attention.output, block.attn.c_proj)
        copy_transposed(layer.feed_forward.wide, block.mlp.c_fc)
        copy_transposed(layer.feed_forward.back, block.mlp.c_proj)
        layer.self_attention_residual.norm.load_state_dict(block.ln_1.state_dict())
        layer.feed_forward_residual.norm.load_state_dict(block.ln_2.state_dict())


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_transformer_lm_scores_equal_hugging_faces(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = {"vocab_size": 50, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 20}
    activation = (
        {"afn": "relu"} if name == "transformer_lm_gpt" else {"activation_function": "relu"}
    )
    config = getattr(transformers, f"{NAMES[name]}Config")(
        **shape, **activation, initializer_range=0.3
    )
    hf = getattr(transformers, f"{NAMES[name]}LMHeadModel")(config).eval()
    entry, inner = ARCHITECTURES[name], hf.transformer
    config = dataclasses.replace(entry.config, **SHAPE, activation="relu")
    model = entry.factory(config, Sizes(tokens=50)).eval()
    if name == "transformer_lm_gpt":
        copy_model(model, inner.tokens_embed, inner.positions_embed, inner)
    else:
        copy_model(model, inner.wte, inner.wpe, inner)
        model.decoder.norm.load_state_dict(inner.ln_f.state_dict())
    previous = torch.randint(50, (3, 20))
    scores = model.scores(model.decode(previous).flatten(0, 1)).unflatten(0, (3, 20))
    torch.testing.assert_close(scores, hf(previous).logits, atol=1e-5, rtol=1e-5)


def test_transformer_lm_without_shared_embeddings_has_two_tables():
    entry = ARCHITECTURES["transformer_lm_tiny"]
    config = dataclasses.replace(entry.config, share_embeddings=False)
    model = entry.factory(config, Sizes(tokens=9))
    tables = model.separate_output_embedding, model.token_embedding
    assert [table.weight.shape for table in tables] == [(9, 128)] * 2
