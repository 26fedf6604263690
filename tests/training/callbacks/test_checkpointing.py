import os
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import torch

from toolkit.checkpoints.save_folder import CheckpointSaveError, SaveFolder, write_manifest
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import CheckpointConfig
from toolkit.optim.update import Update
from toolkit.training.callbacks.checkpointing import Checkpointer, find_superfluous, require_state
from toolkit.training.callbacks.validation import Validation
from toolkit.training.run import run
from toolkit.training.step import Step, TrainingProgress


class Recorder:
    def __init__(self):
        self.records = []

    def write(self, event, values):
        self.records.append((event, values["update"]))

    def close(self):
        pass


class Disk:
    """Writes checkpoints while there is space."""

    def __init__(self, folder):
        self.folder, self.full, self.written = folder, False, []

    def save(self, update, epoch, reasons):
        if self.full:
            raise CheckpointSaveError("no space left.")
        self.written.append((update, tuple(reasons)))
        facts = {"update": update, "reasons": reasons}
        self.folder.write(f"checkpoint_e{epoch}_u{update}", lambda folder: None, facts)


@pytest.fixture
def disk(tmp_path):
    return Disk(SaveFolder(tmp_path))


@pytest.fixture
def make_saving(disk, make_trainer):
    def make(improved_at=None, **options):
        trainer = make_trainer()
        validation = Validation(trainer, {}, None)
        if improved_at:
            validation.best = {"metric": "loss", "value": 1.0, "update": improved_at}
        return Checkpointer(
            trainer,
            disk.folder,
            disk.save,
            Recorder(),
            config=CheckpointConfig(**options),
            validation=validation,
        )

    return make


def step(update, *, ends_epoch=False):
    return Step(
        progress=TrainingProgress(update=update, epoch=1 + ends_epoch),
        epoch=1,
        losses={},
        weights={},
        tokens=0,
        learning_rate=0.0,
        outcome=Update(*torch.zeros(3)),
        micro_batches=[],
    )


def link(disk, name="checkpoint_last"):
    return os.readlink(disk.folder.path / name)


def test_checkpointer_saves_epoch_ends_intervals_and_improvements(make_saving, disk):
    saving = make_saving(improved_at=4, save_interval_updates=3)
    for update in range(1, 8):
        saving(step(update, ends_epoch=update == 6))
    assert disk.written == [(3, ("interval",)), (4, ("best",)), (6, ("epoch", "interval"))]
    assert link(disk, "checkpoint_best") == "checkpoint_e1_u4"


def test_checkpointer_writes_an_update_once_and_links_it_again(make_saving, disk):
    saving = make_saving()
    saving.save(5, 1, ["epoch"])
    os.unlink(disk.folder.path / "checkpoint_last")
    saving.save_last(5, 1, "end")
    assert disk.written == [(5, ("epoch",))] and link(disk) == "checkpoint_e1_u5"


def test_checkpointer_rewrites_an_update_validated_after_its_save(make_saving, disk):
    saving = make_saving()
    saving.save(5, 1, ["epoch"])
    saving.validation.validated_at = 5
    for _ in range(2):
        saving.save_last(5, 1, "end")
    assert disk.written == [(5, ("epoch",)), (5, ("epoch", "end"))]


def test_failed_link_counts_as_a_failed_save(make_saving, disk, monkeypatch, caplog):
    def full(link, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.folder, "link", full)
    make_saving().save(1, 1, ["interval"])
    assert "No space left on device Training continues" in caplog.text
    assert disk.written == [(1, ("interval",))]


@pytest.mark.slow
def test_failed_saves_of_one_rank_stop_all_ranks(make_trainer, ranks):
    def end(world):
        def save(update, epoch, reasons):
            if world.is_main:
                raise CheckpointSaveError("no space left.")

        trainer = make_trainer(world=world)
        validation = Validation(trainer, {}, None)
        c = CheckpointConfig(max_failed_saves=1)
        folder = SaveFolder(Path("nowhere"))
        saving = Checkpointer(trainer, folder, save, None, config=c, validation=validation)
        with pytest.raises(CheckpointSaveError) as caught:
            saving.save(1, 1, ["interval"])
        return str(caught.value)

    assert ranks(end) == ["no space left. That was failure 1 in a row."] * 2


@pytest.mark.slow
def test_save_that_failed_on_one_rank_is_repeated_by_all(make_trainer, ranks, tmp_path):
    def go_on(world):
        def save(update, epoch, reasons):
            tries.append(update)
            world.all_gather("metrics")  # some state is summed over the ranks
            if world.is_main and len(tries) == 1:
                raise CheckpointSaveError("no space left.")

        tries = []
        trainer = make_trainer(world=world)
        validation = Validation(trainer, {}, None)
        folder, c = SaveFolder(tmp_path), CheckpointConfig()
        saving = Checkpointer(trainer, folder, save, None, config=c, validation=validation)
        saving.save(1, 1, ["interval"])
        saving.save_last(1, 1, "end")
        return tries

    assert ranks(go_on) == [[1, 1]] * 2


def test_checkpoint_has_all_files_to_resume_and_to_use_it(config, tmp_path):
    run(config(max_update=3, lr=0.01))
    folder = tmp_path / "run" / "checkpoint_last"
    names = {"tokenizer_config.json", "config.json", "dict.txt", "manifest.json", "state.json"}
    names |= {"optimizer.safetensors", "sentencepiece.model", "model.safetensors"}
    assert {path.name for path in folder.iterdir()} == names
    saved = json_files.loads((folder / "config.json").read_text())
    assert saved["run"]["optimizer"]["lr"] == 0.01 and saved["plugins"] == []
    progress = TrainingProgress(update=3, epoch=1, consumed=3, words=289)
    assert require_state(folder).progress == progress


@pytest.mark.parametrize("keys", ["data order", "callbacks validation best metric"])
def test_state_of_a_checkpoint_that_lacks_a_field_is_an_error_in_one_line(trained, keys):
    path, (*outer, last) = trained / "checkpoint_last" / "state.json", keys.split()
    state = json_files.loads(path.read_text())
    del reduce(getitem, outer, state)[last]
    path.write_text(json_files.dumps(state))
    with pytest.raises(ToolkitError, match=rf"state\.json: .*missing required field {last}"):
        require_state(path.parent)


@pytest.fixture
def write(tmp_path):
    """Writes a checkpoint, with the metrics of a validation if a loss is given."""

    def make(update, *reasons, loss=None, validated_at=None, examples=""):
        folder = tmp_path / f"checkpoint_e1_u{update}"
        folder.mkdir()
        validated_at = update if validated_at is None else validated_at
        latest = {} if loss is None else {"valid": {"loss": loss}}
        validation = {"latest": latest, "validated_at": validated_at}
        validation |= {"best": None, "examples": examples, "bad_validations": 0, "schedule": None}
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
