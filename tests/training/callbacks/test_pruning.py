import pytest

from toolkit.checkpoints.save_folder import SaveFolder, write_manifest
from toolkit.common import json_files
from toolkit.config.sections import CheckpointConfig
from toolkit.training.callbacks.checkpointing import find_superfluous


@pytest.fixture
def write(tmp_path):
    """Writes a checkpoint, with the metrics of a validation if a loss is given."""

    def make(update, *reasons, loss=None, validated_at=None, examples=""):
        folder = tmp_path / f"checkpoint_e1_u{update}"
        folder.mkdir()
        validated_at = update if validated_at is None else validated_at
        latest = {} if loss is None else {"valid": {"loss": loss}}
        validation = {"latest": latest, "validated_at": validated_at}
        validation |= {"best": None, "examples": examples, "bad_validations": 0}
        state = {"callbacks": {"validation": validation}, "precision": "fp32"}
        state |= {"progress": {"update": update}, "data": {"examples": "", "order": ""}}
        (folder / "state.json").write_text(json_files.dumps(state))
        write_manifest(folder, {"reasons": list(reasons)})

    return make


def kept(folder, **options):
    folders = SaveFolder(folder).checkpoints()
    gone = find_superfluous(folders, CheckpointConfig(**options), "loss", "")
    return {int(path.name.rpartition("u")[2]) for path in folders if path not in gone}


def test_pruning_keeps_the_newest_of_each_kind(write, tmp_path):
    for update in (1, 2, 3, 4):
        write(update, "epoch", "best")
        write(10 + update, "interval")
    assert kept(tmp_path, keep_last_epochs=2, keep_interval_updates=1) == {3, 4, 14}


def test_pruning_keeps_multiples_of_the_pattern(write, tmp_path):
    for update in range(500, 3500, 500):
        write(update, "interval")
    assert kept(tmp_path, keep_interval_updates_pattern=1000) == {1000, 2000, 3000}


def test_pruning_compares_only_validations_on_the_same_examples(write, tmp_path):
    write(1, "interval", loss=1.0, examples="of an easier split")
    for update, loss in ((2, 3.0), (3, 2.0), (4, 4.0)):
        write(update, "interval", loss=loss)
    assert kept(tmp_path, keep_best_checkpoints=1) == {3, 4}


def test_pruning_keeps_the_n_best_and_prefers_newer_ones(write, tmp_path):
    for update, loss in enumerate([2.0, 1.0, 3.0, 2.0, float("nan"), 4.0], 1):
        write(update, "interval", loss=loss)
    assert kept(tmp_path, keep_best_checkpoints=2) == {2, 4, 6}
    assert kept(tmp_path, keep_best_checkpoints=3) == {1, 2, 4, 6}


def test_pruning_keeps_unreadable_checkpoints(write, tmp_path):
    for update in (1, 2):
        write(update, "interval")
    (tmp_path / "checkpoint_e1_u1" / "manifest.json").write_text("{")
    assert kept(tmp_path) == {1, 2}
