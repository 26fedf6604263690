"""`transformer` against implementations everybody has, and its sizes against published ones."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes

SHAPE = {"width": 32, "heads": 4, "feed_forward_width": 48}
LAYERS = {"encoder_layers": 2, "decoder_layers": 3}


def parameters(name, **sizes):
    """Of a model built without memory behind the tensors."""
    entry = ARCHITECTURES[name]
    with torch.device("meta"):
        model = entry.factory(entry.config, Sizes(**sizes))
    return sum(p.numel() for p in model.parameters())


def same(ours, theirs):
    ours.load_state_dict(theirs.state_dict())


def joined(ours, *theirs):
    """Several matrices of theirs are one of ours."""
    for name in ("weight", "bias"):
        getattr(ours, name).data = torch.cat([getattr(part, name).data for part in theirs])


def copied_layer(ours, theirs):
    own = theirs.self_attn
    joined(ours.self_attention.project.qkv, own.q_proj, own.k_proj, own.v_proj)
    same(ours.self_attention.output, own.out_proj)
    same(ours.self_attention_residual.norm, theirs.self_attn_layer_norm)
    if ours.cross_attention is not None:
        cross = theirs.encoder_attn
        same(ours.cross_attention.query, cross.q_proj)
        joined(ours.cross_attention.key_value, cross.k_proj, cross.v_proj)
        same(ours.cross_attention.output, cross.out_proj)
        same(ours.cross_attention_residual.norm, theirs.encoder_attn_layer_norm)
    same(ours.feed_forward.wide, theirs.fc1)
    same(ours.feed_forward.back, theirs.fc2)
    same(ours.feed_forward_residual.norm, theirs.final_layer_norm)


def copied(model, hf):
    """HF's weights into ours."""
    same(model.token_embedding, hf.shared)
    for ours, theirs in ((model.encoder, hf.encoder), (model.decoder, hf.decoder)):
        for one, other in zip(ours.layers, theirs.layers, strict=True):
            copied_layer(one, other)
        if hasattr(theirs, "layer_norm"):
            same(ours.norm, theirs.layer_norm)


def theirs(family, **options):
    """A model of Hugging Face with the same shape, its numbers random."""
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
def test_scores_equal_hugging_faces_with_the_same_weights(family, pre_norm):
    hf, entry = theirs(family), ARCHITECTURES["transformer"]
    config = dataclasses.replace(entry.config, **SHAPE, **LAYERS, pre_norm=pre_norm)
    model = entry.factory(config, Sizes(tokens=50)).eval()
    copied(model, hf.model)
    tokens, previous = torch.randint(2, 50, (3, 11)), torch.randint(2, 50, (3, 8))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    want = hf(input_ids=tokens, attention_mask=~padding, decoder_input_ids=previous).logits
    encoded = model(Inputs(tokens, padding=padding))
    got = model.scores(model.decode(previous, encoded, padding).flatten(0, 1))
    torch.testing.assert_close(got.unflatten(0, (3, 8)), want, atol=1e-5, rtol=1e-5)


def test_the_big_model_has_the_published_number_of_parameters():
    """Ott et al. 2018, 210M, on 32,768 joined symbols of WMT English-German."""
    assert parameters("transformer_big", tokens=32_768) == 209_911_808


def test_the_small_model_has_the_number_that_fairseq_logs():
    """For IWSLT 2014 German-English, 8,848 and 6,632 symbols."""
    assert parameters("transformer_iwslt", tokens=8_848, targets=6_632) == 39_469_056


def test_the_base_model_has_about_the_published_number_of_parameters():
    """65 million (Vaswani et al. 2017, table 3) with some 37,000 symbols."""
    assert parameters("transformer", tokens=37_000) == pytest.approx(65e6, rel=0.035)


def test_an_unknown_relative_term_is_answered_with_those_there_are():
    entry = ARCHITECTURES["transformer_tiny"]
    with pytest.raises(ToolkitError, match=r"must be one of none, t5, .*, but is 't6'"):
        dataclasses.replace(entry.config, relative="t6")
