"""DeBERTa's second and third version: published settings, names and tokenizers."""

from __future__ import annotations

import json
import re

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.conversion.conftest import SHAPE
from toolkit import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.conversion import native_classes
from toolkit.models.interface import Inputs

BASE = {"position_buckets": 256, "max_position_embeddings": 512}


def read_json(path):
    return json.loads(path.read_text())


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**read_json(path), **changes}))


def test_offsets_in_logarithmic_buckets_equal_transformers(saved, converted):
    """Offsets above 128 share rows; those above 512 share the last ones."""
    model, folder = saved("DebertaV2Model", **BASE)
    encoder = load_checkpoint(converted(folder)).encoder
    tokens = torch.randint(SHAPE["vocab_size"], (2, 600))
    padding = torch.arange(600) >= torch.tensor([600, 290])[:, None]
    with torch.no_grad():
        want = model(tokens, attention_mask=(~padding).long()).last_hidden_state
        got = encoder(Inputs(tokens, padding=padding)).states
    torch.testing.assert_close(got[~padding], want[~padding], atol=1e-5, rtol=0)


VARIANTS = {
    "convolution of v2-xlarge": {"conv_kernel_size": 3, "conv_act": "gelu"},
    "grouped convolution": {"conv_kernel_size": 5, "conv_groups": 4},
    "one convolved layer": {"conv_kernel_size": 3, "conv_act": "relu", "num_hidden_layers": 1},
    "separate projections": {"share_att_key": False},
    "absolute positions": {"position_biased_input": True},
    "absolute positions, fewer offsets": {
        **{"position_biased_input": True, "max_relative_positions": 7, "position_buckets": 4},
    },
    "no buckets": {"position_buckets": -1},
    "no buckets, clipped": {"position_buckets": 0, "max_relative_positions": 5},
    "content to position": {"pos_att_type": ["c2p"]},
    "position to content": {"pos_att_type": "p2c"},
    "content to position, separate": {"pos_att_type": "C2P", "share_att_key": False},
    "position to content, separate": {"pos_att_type": "p2c|p2p", "share_att_key": False},
    "no products": {"pos_att_type": None},
    "table without norm": {"norm_rel_ebd": "none"},
    "only absolute positions": {
        **{"relative_attention": False, "pos_att_type": None, "position_biased_input": True},
    },
    "no positions": {"relative_attention": False, "pos_att_type": None},
    "defaults of Transformers": {
        **{"share_att_key": False, "position_biased_input": True, "norm_rel_ebd": "none"},
        **{"position_buckets": -1, "conv_kernel_size": 3, "conv_act": "silu"},
    },
}


@pytest.mark.parametrize("case", VARIANTS)
@torch.no_grad()
def test_variants_equal_transformers_and_come_back(saved, converted, monkeypatch, case):
    model, folder = saved("DebertaV2ForMaskedLM", **VARIANTS[case])
    checkpoint = converted(folder)
    learner = load_checkpoint(checkpoint)
    tokens = torch.randint(SHAPE["vocab_size"], (3, 14))
    padding = torch.arange(14) >= torch.tensor([14, 6, 9])[:, None]
    want = model(tokens, attention_mask=(~padding).long(), output_hidden_states=True)
    states = learner.encoder(Inputs(tokens, padding=padding)).states
    head = learner.task.head(states.flatten(0, 1), learner.encoder.token_embedding.weight)
    for got, wanted in (
        (states, want.hidden_states[-1]),
        (head.unflatten(0, (3, 14)), want.logits),
    ):
        assert wanted.std() > 0.1
        torch.testing.assert_close(got[~padding], wanted[~padding], atol=1e-5, rtol=1e-5)
    back = converted(checkpoint, "hf")
    assert read_json(back / "config.json").items() >= read_json(folder / "config.json").items()
    monkeypatch.setattr(native_classes, "read_origin", lambda _: {})  # as if trained here
    for path in (back, converted(checkpoint, "hf", "trained here")):
        assert torch.equal(type(model).from_pretrained(path).eval()(tokens)[0], model(tokens)[0])


def test_published_files_come_back_with_all_their_tensors(saved, converted):
    """They do not name their head, and have tensors that Transformers ignores."""
    model, folder = saved("DebertaV2ForMaskedLM", legacy=False)
    config = json.loads((folder / "config.json").read_text())
    del config["legacy"]
    (folder / "config.json").write_text(json.dumps(config))
    ignored = {
        "deberta.embeddings.position_embeddings.weight": torch.randn(16, 24),
        "mask_predictions.classifier.weight": torch.randn(1, 24),
    }
    tensors = {**load_file(folder / "model.safetensors"), **ignored}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    back = converted(converted(folder), "hf")
    found = load_file(back / "model.safetensors")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    tokens = torch.randint(SHAPE["vocab_size"], (1, 9))
    opened = transformers.AutoModelForMaskedLM.from_pretrained(back).eval()
    assert torch.equal(opened(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"relative_attention": False}, [r"pos_att_type .*c2p.* none without relative_attention"]),
        ({"pos_att_type": 3}, ["pos_att_type +3 +a list"]),
        ({"conv_act": "elu", "position_buckets": -2}, ["conv_act +elu", "position_buckets +-2"]),
        ({"attention_head_size": 7}, ["attention_head_size +7 +6"]),
        ({"pooler_dropout": 0.5, "pooler_hidden_size": 9}, ["pooler_dropout +0.5", "size +9 +24"]),
    ],
)
def test_import_rejects_settings_without_a_counterpart(saved, converted, capsys, changes, rows):
    _, folder = saved("DebertaV2Model")
    change_config(folder, **changes)
    message = f"cannot be converted without loss: {len(rows)} mismatch.* see the table"
    with pytest.raises(ToolkitError, match=message):
        converted(folder)
    table = " ".join(capsys.readouterr().err.split())
    for row in rows:
        assert re.search(row, table), table
