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


def killed(which):
    return lambda rank: os.kill(os.getpid(), signal.SIGKILL) if rank == which else None


def whole(folder):
    """The update of checkpoint_last, after its digests are verified."""
    return verify_checkpoint(folder / "checkpoint_last").update


@pytest.mark.parametrize("which", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_other_rank_exits_and_names_the_killed_rank(
    config, monkeypatch, two_ranks, tmp_path, which
):
    ended = two_ranks(train(config, monkeypatch, killed(which)))
    assert ended[which].code == -signal.SIGKILL
    other = ended[1 - which]
    assert other.code == PEER_FAILURE_EXIT_CODE
    assert f"rank {1 - which} exits: rank {which} died" in other.stderr
    assert whole(tmp_path / "run") == 2


@pytest.mark.slow
def test_error_on_one_rank_is_reported_by_the_other(config, monkeypatch, two_ranks):
    def fails(rank):
        if rank == 1:
            raise OSError("the disk of this machine is gone")

    first, second = two_ranks(train(config, monkeypatch, fails))
    assert second.code == 1 and "OSError: the disk of this machine is gone" in second.stderr
    assert first.code == PEER_FAILURE_EXIT_CODE
    assert "rank 1 failed with OSError: the disk of this machine is gone" in first.stderr
