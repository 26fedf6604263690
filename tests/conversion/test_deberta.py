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
from toolkit.models.interface import Inputs

BASE = {"position_buckets": 256, "max_position_embeddings": 512}


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


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
        ({"pos_att_type": ["c2p"]}, [r"pos_att_type +\['c2p'\]"]),
        ({"position_buckets": -1}, ["position_buckets +-1"]),
        ({"max_relative_positions": 12}, ["max_relative_positions +12"]),
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
