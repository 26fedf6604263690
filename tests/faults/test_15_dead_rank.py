"""Scenario 15: one of two ranks dies after update 2, which has been saved."""

from __future__ import annotations

import os
import signal

import pytest

from toolkit.checkpoints.save_folder import verify_checkpoint
from toolkit.distributed.watchdog import PEER_FAILURE_EXIT_CODE
from toolkit.training.run import TrainingRun, run


def train(config, monkeypatch, dies):
    """A run on two ranks, one of which calls a function after update 2."""
    advance = TrainingRun.advance_progress_bar

    def last_words(self, step):
        advance(self, step)
        if step.update == 3:
            dies(self.world.rank)

    c = config(save_interval_updates=2, max_epoch=99, batch_size=4)

    def start(rank):
        monkeypatch.setattr(TrainingRun, "advance_progress_bar", last_words)
        run(c)

    return start


@pytest.mark.slow
def test_other_rank_exits_and_names_the_killed_rank(config, monkeypatch, two_ranks, tmp_path):
    def dies(rank):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    other, ended = two_ranks(train(config, monkeypatch, dies))
    assert ended.code == -signal.SIGKILL
    assert other.code == PEER_FAILURE_EXIT_CODE
    assert "rank 0 exits: rank 1 died" in other.stderr
    assert verify_checkpoint(tmp_path / "run" / "checkpoint_last").update == 2


@pytest.mark.slow
def test_error_on_one_rank_is_reported_by_the_other(config, monkeypatch, two_ranks):
    def fails(rank):
        if rank == 1:
            raise OSError("the disk of this machine is gone")

    first, second = two_ranks(train(config, monkeypatch, fails))
    assert second.code == 1 and "OSError: the disk of this machine is gone" in second.stderr
    assert first.code == PEER_FAILURE_EXIT_CODE
    assert "rank 1 failed with OSError: the disk of this machine is gone" in first.stderr
