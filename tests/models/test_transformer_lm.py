"""`transformer_lm` against implementations everybody has, and its sizes against published ones."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Sizes

SHAPE = {"layers": 3, "width": 32, "heads": 4, "feed_forward_width": 128, "max_positions": 20}
NAMES = {"transformer_lm_gpt": "OpenAIGPT", "transformer_lm_gpt2": "GPT2"}


def parameters(name, tokens):
    entry = ARCHITECTURES[name]
    with torch.device("meta"):
        model = entry.factory(entry.config, Sizes(tokens=tokens))
    return sum(p.numel() for p in model.parameters())


def turned(ours, theirs):
    """Their matrices stand the other way round."""
    ours.weight.data, ours.bias.data = theirs.weight.data.T.contiguous(), theirs.bias.data


def copied(model, words, positions, hf):
    """HF's weights into ours."""
    model.token_embedding.load_state_dict(words.state_dict())
    model.decoder.embeddings.positions.load_state_dict(positions.state_dict())
    for ours, theirs in zip(model.decoder.layers, hf.h, strict=True):
        turned(ours.self_attention.project.qkv, theirs.attn.c_attn)
        turned(ours.self_attention.output, theirs.attn.c_proj)
        turned(ours.feed_forward.wide, theirs.mlp.c_fc)
        turned(ours.feed_forward.back, theirs.mlp.c_proj)
        ours.self_attention_residual.norm.load_state_dict(theirs.ln_1.state_dict())
        ours.feed_forward_residual.norm.load_state_dict(theirs.ln_2.state_dict())


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_scores_equal_hugging_faces_with_the_same_weights(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = {"vocab_size": 50, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 20}
    own = {"afn": "relu"} if name == "transformer_lm_gpt" else {"activation_function": "relu"}
    config = getattr(transformers, f"{NAMES[name]}Config")(**shape, **own, initializer_range=0.3)
    hf = getattr(transformers, f"{NAMES[name]}LMHeadModel")(config).eval()
    entry, inner = ARCHITECTURES[name], hf.transformer
    config = dataclasses.replace(entry.config, **SHAPE, activation="relu")
    model = entry.factory(config, Sizes(tokens=50)).eval()
    if name == "transformer_lm_gpt":
        copied(model, inner.tokens_embed, inner.positions_embed, inner)
    else:
        copied(model, inner.wte, inner.wpe, inner)
        model.decoder.norm.load_state_dict(inner.ln_f.state_dict())
    previous = torch.randint(50, (3, 20))
    got = model.scores(model.decode(previous).flatten(0, 1)).unflatten(0, (3, 20))
    torch.testing.assert_close(got, hf(previous).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "tokens", "published"),
    [("transformer_lm_gpt", 40_478, 116_534_784), ("transformer_lm_gpt2", 50_257, 124_439_808)],
)
def test_a_size_has_the_published_number_of_parameters(name, tokens, published):
    assert parameters(name, tokens) == published


def test_tables_of_their_own_for_words_and_scores():
    entry = ARCHITECTURES["transformer_lm_tiny"]
    config = dataclasses.replace(entry.config, share_embeddings=False)
    model = entry.factory(config, Sizes(tokens=9))
    assert (
        model.separate_output_embedding.weight.shape
        == model.token_embedding.weight.shape
        == (9, 128)
    )


def test_no_layers_are_refused():
    with pytest.raises(ToolkitError, match=r"arch.layers must be at least 1, but is 0"):
        dataclasses.replace(ARCHITECTURES["transformer_lm_tiny"].config, layers=0)
