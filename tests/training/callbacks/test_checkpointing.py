import os
from pathlib import Path

import pytest
import torch

from toolkit.checkpoints.save_folder import CheckpointSaveError, SaveFolder
from toolkit.config.sections import CheckpointConfig
from toolkit.optim.update import Update
from toolkit.training.callbacks.checkpointing import Checkpointer
from toolkit.training.callbacks.validation import Validation
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


def test_checkpointer_deletes_superfluous_checkpoints(make_saving, disk):
    saving = make_saving(save_interval_updates=1, keep_interval_updates=2)
    for update in range(1, 6):
        saving(step(update))
    assert [path.name for path in disk.folder.checkpoints()] == [
        "checkpoint_e1_u5",
        "checkpoint_e1_u4",
    ]


def test_failed_save_is_reported_and_training_continues(make_saving, disk, caplog):
    saving = make_saving()
    saving.save(1, 1, ["interval"])
    disk.full = True
    saving.save(2, 1, ["interval"])
    assert "no space left. Training continues; the next save will try again." in caplog.text
    assert link(disk) == "checkpoint_e1_u1" and saving.saved_at == 1
    disk.full = False
    saving.save(3, 1, ["interval"])
    assert saving.sink.records == [("save", 1), ("save_failed", 2), ("save", 3)]
    assert link(disk) == "checkpoint_e1_u3" and saving.failures == 0


def test_max_failed_saves_stops_training(make_saving, disk):
    saving, disk.full = make_saving(max_failed_saves=3), True
    for update in (1, 2):
        saving.save(update, 1, ["interval"])
    with pytest.raises(CheckpointSaveError, match=r"no space left\. That was failure 3 in a row\."):
        saving.save(3, 1, ["interval"])


def test_failed_last_save_raises(make_saving, disk):
    saving, disk.full = make_saving(), True
    with pytest.raises(CheckpointSaveError, match="no space left"):
        saving.save_last(3, 1, "end")


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
