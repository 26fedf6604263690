import json
from dataclasses import asdict

import pytest

from toolkit.checkpoints import manifest
from toolkit.commands.describe_checkpoint import describe_checkpoint, find_checkpoint
from toolkit.common.errors import ToolkitError


def rewritten(folder, **sections):
    """A checkpoint with a changed config.json and a new manifest."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **sections}))
    facts = asdict(manifest.read(folder))
    (folder / manifest.NAME).unlink()
    manifest.write(folder, facts)
    return folder


def test_describe_checkpoint_gives_run_size_and_best_metric(trained):
    found = describe_checkpoint(find_checkpoint(trained))
    assert found["kind"] == "checkpoint checkpoint_e2_u10, checkpoint_last and checkpoint_best"
    assert found["architecture"].startswith("composite_bert_tiny (layers 1, width 16, ")
    assert found["task"].startswith("mlm (tokens_per_sample 128, ")
    assert found["parameters"].endswith("tensors of F32")
    assert found["saved at"].startswith("update 10, epoch 2, reasons: ")
    assert found["best"].startswith("loss ") and found["best"].endswith(" at update 10")
    assert found["trained in"] == "fp32 on 1 rank"
    assert "fingerprint" in found["data"] and "sentencepiece" in found["vocabulary"]


def test_describe_checkpoint_counts_parameters(trained):
    from toolkit import load_checkpoint

    count = sum(p.numel() for p in load_checkpoint(trained).parameters())
    assert describe_checkpoint(find_checkpoint(trained))["parameters"].startswith(f"{count:,} in ")


def test_describe_checkpoint_shows_the_metadata_of_a_saved_learner(trained, tmp_path):
    from toolkit import load_checkpoint

    load_checkpoint(trained).save(tmp_path / "model", metadata={"language": "English"})
    found = describe_checkpoint(tmp_path / "model")
    assert found["metadata"] == '{"language": "English"}'


def test_describe_checkpoint_verifies_every_file(trained):
    folder = find_checkpoint(trained)
    assert describe_checkpoint(folder, verify=True)["digests"] == "all right"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "not compared" in describe_checkpoint(folder)["digests"]
    with pytest.raises(ToolkitError, match=r"model\.safetensors"):
        describe_checkpoint(folder, verify=True)


def test_describe_checkpoint_names_a_deleted_file_that_only_resuming_reads(trained):
    folder = find_checkpoint(trained)
    (folder / "optimizer.safetensors").unlink()
    found = describe_checkpoint(folder, verify=True)
    assert "optimizer.safetensors (missing), " in found["files"]
    assert found["files"].count("missing") == 1 and found["digests"] == "all right"


def test_describe_checkpoint_names_plugins_that_are_not_loaded(trained):
    run = json.loads((find_checkpoint(trained) / "config.json").read_text())["run"]
    run["arch"]["name"] = "their_own"
    needed = [{"name": "their_folder", "sha256": "ab" * 32}]
    found = describe_checkpoint(rewritten(find_checkpoint(trained), run=run, plugins=needed))
    assert found["plugins"] == (
        "their_folder, not loaded: pass the plugin's folder with --user-dir to use the checkpoint"
    )
    assert found["architecture"].startswith("their_own (") and "best" in found


def test_find_checkpoint_of_another_folder_is_none(tmp_path, data):
    assert find_checkpoint(tmp_path) is None and find_checkpoint(data) is None
