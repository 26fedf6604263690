"""The Transformer compared with Hugging Face's Marian and Pegasus, and published sizes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes

SHAPE = {"width": 32, "heads": 4, "feed_forward_width": 48}
LAYERS = {"encoder_layers": 2, "decoder_layers": 3}


def copy_weights(module, source):
    module.load_state_dict(source.state_dict())


def concatenate_weights(module, *sources):
    for name in ("weight", "bias"):
        getattr(module, name).data = torch.cat([getattr(part, name).data for part in sources])


def copy_layer(layer, hf):
    own = hf.self_attn
    concatenate_weights(layer.self_attention.project.qkv, own.q_proj, own.k_proj, own.v_proj)
    copy_weights(layer.self_attention.output, own.out_proj)
    copy_weights(layer.self_attention_residual.norm, hf.self_attn_layer_norm)
    if layer.cross_attention is not None:
        cross = hf.encoder_attn
        copy_weights(layer.cross_attention.query, cross.q_proj)
        concatenate_weights(layer.cross_attention.key_value, cross.k_proj, cross.v_proj)
        copy_weights(layer.cross_attention.output, cross.out_proj)
        copy_weights(layer.cross_attention_residual.norm, hf.encoder_attn_layer_norm)
    copy_weights(layer.feed_forward.wide, hf.fc1)
    copy_weights(layer.feed_forward.back, hf.fc2)
    copy_weights(layer.feed_forward_residual.norm, hf.final_layer_norm)


def copy_model(model, hf):
    copy_weights(model.token_embedding, hf.shared)
    for stack, hf_stack in ((model.encoder, hf.encoder), (model.decoder, hf.decoder)):
        for layer, hf_layer in zip(stack.layers, hf_stack.layers, strict=True):
            copy_layer(layer, hf_layer)
        if hasattr(hf_stack, "layer_norm"):
            copy_weights(stack.norm, hf_stack.layer_norm)


def build_hugging_face(family, **options):
    """A Hugging Face model of the same shape with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("attention_heads", 4), ("ffn_dim", 48))
    }
    config = getattr(transformers, f"{family}Config")(
        vocab_size=50,
        d_model=32,
        max_position_embeddings=40,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=1,
        init_std=0.3,
        **LAYERS,
        **sides,
        **options,
    )
    if family == "Marian":
        config.decoder_start_token_id = 0
    model = "MarianMTModel" if family == "Marian" else "PegasusForConditionalGeneration"
    return getattr(transformers, model)(config).eval()


@pytest.mark.parametrize(("family", "pre_norm"), [("Marian", False), ("Pegasus", True)])
@torch.no_grad()
def test_transformer_scores_equal_hugging_faces(family, pre_norm):
    hf, entry = build_hugging_face(family), ARCHITECTURES["transformer"]
    config = dataclasses.replace(entry.config, **SHAPE, **LAYERS, pre_norm=pre_norm)
    model = entry.factory(config, Sizes(tokens=50)).eval()
    copy_model(model, hf.model)
    tokens, previous = torch.randint(2, 50, (3, 11)), torch.randint(2, 50, (3, 8))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    expected = hf(input_ids=tokens, attention_mask=~padding, decoder_input_ids=previous).logits
    encoded = model(Inputs(tokens, padding=padding))
    scores = model.scores(model.decode(previous, encoded, padding).flatten(0, 1))
    torch.testing.assert_close(scores.unflatten(0, (3, 8)), expected, atol=1e-5, rtol=1e-5)
