import json

import pytest

from toolkit.checkpoints import manifest
from toolkit.commands.describe_checkpoint import checkpoint_at, describe
from toolkit.common.errors import ToolkitError


def rewritten(folder, **sections):
    """A checkpoint whose config.json says something else, sealed anew."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **sections}))
    facts = {k: v for k, v in manifest.read(folder).items() if k not in ("files", "format")}
    (folder / manifest.NAME).unlink()
    manifest.seal(folder, facts)
    return folder


def test_a_checkpoint_tells_its_run_its_size_and_its_best_figure(trained):
    found = describe(checkpoint_at(trained))
    assert found["kind"] == "checkpoint checkpoint_e2_u10, checkpoint_last and checkpoint_best"
    assert found["architecture"].startswith("composite_bert_tiny (layers 1, width 16, ")
    assert found["task"].startswith("mlm (tokens_per_sample 128, ")
    assert found["parameters"].endswith("tensors of F32")
    assert found["place"].startswith("update 10, epoch 2, saved because of: ")
    assert found["best"].startswith("loss ") and found["best"].endswith(" at update 10")
    assert found["trained in"] == "fp32 on 1 rank"
    assert "fingerprint" in found["data"] and "sentencepiece" in found["vocabulary"]


def test_the_parameters_are_those_of_the_learner(trained):
    from toolkit.checkpoints.load import load_checkpoint

    count = sum(p.numel() for p in load_checkpoint(trained).parameters())
    assert describe(checkpoint_at(trained))["parameters"].startswith(f"{count:,} in ")


def test_verifying_compares_every_file(trained):
    folder = checkpoint_at(trained)
    assert describe(folder, verify=True)["digests"] == "all right"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "not compared" in describe(folder)["digests"]
    with pytest.raises(ToolkitError, match=r"model\.safetensors"):
        describe(folder, verify=True)


def test_a_plugin_that_is_not_loaded_is_named_and_the_rest_is_shown(trained):
    run = json.loads((checkpoint_at(trained) / "config.json").read_text())["run"]
    run["arch"]["name"] = "their_own"
    needed = [{"name": "their_folder", "sha256": "ab" * 32}]
    found = describe(rewritten(checkpoint_at(trained), run=run, plugins=needed))
    assert found["plugins"] == (
        "their_folder, not loaded: to use the checkpoint pass --user-dir with the plugin's folder"
    )
    assert found["architecture"].startswith("their_own (") and "best" in found


def test_what_is_no_checkpoint_is_none(tmp_path, data):
    assert checkpoint_at(tmp_path) is None and checkpoint_at(data) is None
