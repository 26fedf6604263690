"""Fault 5: kill -9 at every step of saving checkpoints, and resuming afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

import pytest
import torch

from toolkit.checkpoints.save_folder import SaveFolder, parse_update
from toolkit.distributed import World
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import TrainingRun

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.symlink", "os.rmdir", "shutil.rmtree"}
"""Python's audit events of changes to a folder; opening a folder to sync it is one too."""


def die_at(step: int, folder: str) -> None:
    """Kill this process before its n-th step in the folder."""
    seen = 0

    def count(event, arguments):
        nonlocal seen
        if event in STEPS and folder in str(arguments[0]) and "checkpoint" in str(arguments[0]):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def train(config, answers, step, folder):
    torch.set_num_threads(1)
    run = TrainingRun(config, World())
    answers.put(run.trainer.progress.update)
    die_at(step, folder)
    run.fit()


def went_on_from(config, folder, context, step):
    """Train in a separate process until it is killed; the update that it resumed from."""
    answers = context.Queue()
    process = context.Process(target=train, args=(config, answers, step, str(folder)))
    process.start()
    update = answers.get(timeout=60)
    process.join(timeout=60)
    assert process.exitcode == -signal.SIGKILL
    return update


@pytest.mark.slow
def test_run_survives_kills_during_saves(config, tmp_path):
    options = {"save_interval_updates": 1, "keep_interval_updates": 2, "max_epoch": 500}
    c = config(**options, log_interval=1000, valid_subset="")
    context, folder = multiprocessing.get_context("fork"), tmp_path / "run"
    before, cut_short = 0, 0
    for step in range(3, 123, 12):
        assert went_on_from(c, folder, context, step) == before
        messages: list[str] = []
        newest = find_newest_intact(SaveFolder(folder), messages.append)
        assert not messages, "a checkpoint under its final name is never damaged"
        now = parse_update(newest) if newest else 0
        assert now >= before
        before = now
        cut_short += bool(list(folder.glob(".checkpoint*.tmp")))
    assert cut_short >= 5
    assert before >= 5
