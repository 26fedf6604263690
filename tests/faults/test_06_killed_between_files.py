"""Fault 6: kill -9 between any two steps of writing one checkpoint; its files are of one update."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from toolkit.checkpoints.load import MODEL
from toolkit.checkpoints.save_folder import verify_checkpoint
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.distributed import World
from toolkit.training.callbacks.checkpointing import require_state
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import TrainingRun
from toolkit.training.step import TrainingProgress

OLD, NEW = 7, 8
STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.symlink", "os.rmdir", "shutil.rmtree"}


def become(training, number):
    """All weights and the progress have the same number, so that a mixture would show."""
    for p in training.trainer.parameters:
        p.data.fill_(number)
    training.trainer.progress = TrainingProgress(update=number, consumed=1)


def save_the_new_one(training, update, die_at):
    seen = 0

    def count(event, arguments):
        nonlocal seen
        if event in STEPS and str(training.save_folder.path) in str(arguments[0]):
            seen += 1
            if seen == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    become(training, NEW)
    sys.addaudithook(count)
    training.checkpointer.saved_at = -1
    training.checkpointer.save(update, 1, ["interval"])


def number_of(folder):
    """The update of each file of a checkpoint."""
    weights = {float(value) for t in read_tensors(folder / MODEL).values() for value in t.view(-1)}
    update = require_state(folder).progress.update
    assert weights == {update}, "files of two updates are mixed"
    verify_checkpoint(folder)
    return update


@pytest.mark.slow
@pytest.mark.parametrize("update", [NEW, OLD], ids=["another update", "in place of the old one"])
def test_kills_between_files_never_mix_updates(config, in_process, update):
    """Every third step; those of the two cases differ."""
    training = TrainingRun(config(valid_subset=""), World())
    found, cuts, code = [], update - NEW - 1, None
    while code != 0:
        become(training, OLD)
        training.checkpointer.saved_at = -1
        training.checkpointer.save(OLD, 1, ["interval"])
        cuts += 3
        code = in_process(save_the_new_one, training, update, cuts)
        training.save_folder.prepare()
        messages = []
        found.append(number_of(find_newest_intact(training.save_folder, messages.append)))
        assert not messages and code in (0, -signal.SIGKILL)
        for folder in training.save_folder.checkpoints():
            assert number_of(folder) in (OLD, NEW)
    assert cuts > 30 and found == sorted(found) and found[0] == OLD and found[-1] == NEW
