"""ModernBERT: states, scores and files equal those of Transformers."""

from __future__ import annotations

import json
import re

import pytest
import torch
import transformers
from safetensors.torch import load_file

from tests.conversion.conftest import SHAPE
from toolkit import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.conversion.architectures import GLOBAL
from toolkit.models.interface import Inputs

SHORT_WINDOW = {
    **{"num_hidden_layers": 5, "local_attention": 6},
    **{"global_attn_every_n_layers": 3, "bos_token_id": 2, "eos_token_id": 3},
}
OTHER_BASES = {
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 900.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
    }
}


def change_config(folder, *removed, **changes):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in config.items() if k not in removed}))


def padded_batch(length):
    torch.manual_seed(1)
    tokens = torch.randint(SHAPE["vocab_size"], (3, length))
    return tokens, torch.arange(length) >= torch.tensor([length, 6, length - 2])[:, None]


@pytest.mark.parametrize(
    ("settings", "length"), [({}, 11), (OTHER_BASES, 330), ({"global_attn_every_n_layers": 9}, 11)]
)
def test_imported_states_and_scores_equal_transformers(saved, converted, settings, length):
    model, folder = saved("ModernBertForMaskedLM", **{**SHORT_WINDOW, **settings})
    learner = load_checkpoint(converted(folder))
    tokens, padding = padded_batch(length)
    with torch.no_grad():
        hf_inputs = {"input_ids": tokens, "attention_mask": (~padding).long()}
        want = model(**hf_inputs).logits
        want_states = model.model(**hf_inputs).last_hidden_state
        states = learner.encoder(Inputs(tokens, padding=padding)).states
        got = learner.task.head(states.flatten(0, 1), learner.encoder.token_embedding.weight)
    assert want.std() > 0.1
    torch.testing.assert_close(states[~padding], want_states[~padding], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.view(want.shape)[~padding], want[~padding], atol=1e-5, rtol=1e-5)


def test_round_trip_restores_every_bit_and_setting(saved, converted):
    model, folder = saved("ModernBertForMaskedLM", **SHORT_WINDOW)
    back = converted(converted(folder), "hf")
    before, after = (load_file(path / "model.safetensors") for path in (folder, back))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    settings = [json.loads((path / "config.json").read_text()) for path in (folder, back)]
    assert not {k for k in settings[0] if settings[0][k] != settings[1].get(k)}
    tokens, padding = padded_batch(20)
    opened, info = transformers.AutoModel.from_pretrained(back, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    mask = (~padding).long()
    with torch.no_grad():
        want = model.base_model(tokens, attention_mask=mask).last_hidden_state
        got = opened.eval()(tokens, attention_mask=mask).last_hidden_state
    assert torch.equal(got, want)
    tokenizer = transformers.AutoTokenizer.from_pretrained(back)
    found = tokenizer("the cats [MASK] on a mat .")
    assert found["input_ids"][0] == 2 and 4 in found["input_ids"]
    assert "token_type_ids" not in found


def test_settings_of_transformers_4_are_read(saved, converted):
    _, folder = saved("ModernBertModel", **SHORT_WINDOW)
    old = {"global_attn_every_n_layers": 2, "global_rope_theta": 900.0, "local_rope_theta": 30.0}
    change_config(folder, "layer_types", "rope_parameters", **old)
    checkpoint = converted(folder)
    encoder = load_checkpoint(checkpoint).encoder
    radii = [layer.attention.map.window_radius for layer in encoder.layers]
    assert radii == [None, 3, None, 3, None]
    bases = [layer.attention.project.changes[0].base for layer in encoder.layers]
    assert bases == [900.0, 30.0, 900.0, 30.0, 900.0]
    config = json.loads((converted(checkpoint, "hf") / "config.json").read_text())
    assert old.items() <= config.items()
    assert config["layer_types"][:3] == ["full_attention", "sliding_attention", "full_attention"]


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"layer_types": ["sliding_attention"] * 5}, "layer_types"),
        ({"hidden_activation": "silu"}, "hidden_activation +silu +gelu"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 9.0}}},
            "rope_parameters",
        ),
        ({"layer_types": [GLOBAL, 1, {}, None, GLOBAL]}, "layer_types"),
        ({"layer_types": None, "global_attn_every_n_layers": 0}, "n_layers +0 +a positive int"),
        ({"num_hidden_layers": 5.0}, r"num_hidden_layers +5\.0 +int"),
        ({"rope_parameters": [1]}, r"rope_parameters +\[1\] +rope_type default"),
    ],
)
def test_unsupported_settings_are_listed(saved, converted, capsys, changes, row):
    _, folder = saved("ModernBertModel", **SHORT_WINDOW)
    change_config(folder, **changes)
    with pytest.raises(ToolkitError, match="cannot be converted without loss"):
        converted(folder)
    assert re.search(row, capsys.readouterr().err)
