"""kill -9 while a checkpoint is being written, and going on from what is there."""

import multiprocessing
import os
import random
import signal
import time

import pytest
import torch

from toolkit.distributed import World
from toolkit.training.resume import newest_good
from toolkit.training.run import Run
from toolkit.training.save_folder import SaveFolder, update_of


def train(config, answers):
    torch.set_num_threads(1)
    run = Run(config, World())
    answers.put(run.trainer.place.update)
    run.fit()


def killed_while_saving(config, folder, context, longest_wait):
    """Train in a process of its own; where it went on from, and whether a save was cut short."""
    answers = context.Queue()
    process = context.Process(target=train, args=(config, answers))
    process.start()
    went_on_from = answers.get(timeout=60)
    newest = {path.name for path in folder.glob("checkpoint_e*")}
    while {path.name for path in folder.glob("checkpoint_e*")} == newest:
        time.sleep(0.001)  # one whole checkpoint, so that the runs come forward
    while not list(folder.glob(".checkpoint*.tmp")):
        time.sleep(0.0002)
    time.sleep(random.uniform(0, longest_wait))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return went_on_from, bool(list(folder.glob(".checkpoint*.tmp")))


@pytest.mark.slow
def test_fifty_of_fifty_kills_during_saves_are_survived(config, tmp_path):
    random.seed(1)
    how = {"save_interval_updates": 1, "keep_interval_updates": 2, "max_epoch": 500}
    c = config(**how, arch__width=128)
    context, folder = multiprocessing.get_context("fork"), tmp_path / "run"
    before, cut_short = 0, 0
    for _ in range(50):
        went_on_from, during = killed_while_saving(c, folder, context, longest_wait=0.03)
        assert went_on_from >= before
        told = []
        before = update_of(newest_good(SaveFolder(folder), told.append))
        assert not told, "a checkpoint under its final name is never damaged"
        assert before > went_on_from
        cut_short += during
    assert cut_short >= 25
