"""Scenario 16: one of two ranks does not reach a collective that the other waits in."""

from __future__ import annotations

import time

import pytest

from toolkit.distributed.watchdog import PEER_FAILURE_EXIT_CODE
from toolkit.training.callbacks.validation import Validation
from toolkit.training.run import run


@pytest.mark.slow
def test_stalled_rank_is_named_with_its_location_and_all_stacks_are_dumped(
    config, monkeypatch, two_ranks, tmp_path
):
    usual = Validation.update_best

    def sleepy(self, *arguments):
        usual(self, *arguments)
        if self.trainer.world.rank == 1:
            time.sleep(3600)

    c = config(training__timeout_seconds=3.0, max_epoch=99)

    def start(rank):
        monkeypatch.setattr(Validation, "update_best", sleepy)
        run(c)

    for rank, ended in enumerate(two_ranks(start)):
        assert ended.code == PEER_FAILURE_EXIT_CODE
        assert "rank 1 is stalled: rank 0 has waited" in ended.stderr
        assert "s in a sum over the ranks (" in ended.stderr
        assert "); it is in sleepy (test_16_stalled_rank.py:" in ended.stderr
        assert f"rank {rank} is in:" in ended.stderr and "Thread 0x" in ended.stderr
        assert "trainer.py" in (tmp_path / "run" / f"stacks_rank{rank}.txt").read_text()
