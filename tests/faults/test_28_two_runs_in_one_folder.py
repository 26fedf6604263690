"""Fault 28: a second process trains into the save folder of a running one: rejected."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket

import pytest

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import TrainingRun, run

CONTEXT = multiprocessing.get_context("fork")


def train_to_the_middle(config, parent):
    training = TrainingRun(config, World())

    def advance(step):
        if step.update == 7:
            parent.send("here")
            assert parent.poll(60)

    training.advance_progress_bar = advance
    training.fit()
    training.close()


@pytest.fixture
def first(config):
    """A run in a separate process that waits after its seventh update until it is released."""
    mine, its = CONTEXT.Pipe()
    process = CONTEXT.Process(target=train_to_the_middle, args=(config(), its))
    process.start()
    assert mine.poll(60)
    yield process, mine
    mine.send("go on")
    process.join(60)


def content_of(folder):
    return {p: p.read_bytes() for p in sorted(folder.glob("**/*")) if p.is_file()}


@pytest.mark.slow
def test_second_run_is_rejected_and_changes_nothing(config, tmp_path, first):
    process, pipe = first
    before = content_of(tmp_path / "run")
    who = rf"process {process.pid} on {socket.gethostname()} \(since .*\)"
    for options in ({}, {"no_save": True}, {"max_update": 1}):
        with pytest.raises(ToolkitError, match=rf"Another run is using .*/run: {who}"):
            run(config(**options))
    assert content_of(tmp_path / "run") == before
    pipe.send("go on")
    process.join(60)
    assert process.exitcode == 0
    assert find_newest_intact(SaveFolder(tmp_path / "run"), pytest.fail).name == "checkpoint_e2_u10"
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.slow
def test_folder_of_a_killed_run_is_available(config, tmp_path, first):
    process, _ = first
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert (tmp_path / "run" / ".lock").exists()
    assert run(config()).updates == 10
    assert not (tmp_path / "run" / ".lock").exists()
