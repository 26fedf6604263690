"""Scenario 2: a run that is stopped again and again ends as an uninterrupted one."""

from __future__ import annotations

from itertools import pairwise

import pytest

UPDATES = 10
HOW = {"max_epoch": 2, "log_interval": 7, "validate_interval_updates": 2, "lr": 0.01}


@pytest.mark.slow
def test_run_of_two_ranks_that_is_stopped_again_and_again_resumes_bit_for_bit(
    config, tmp_path, stopped, end_of, ranks
):
    def run_config(name):
        return config(save_dir=str(tmp_path / name), batch_size=4, **HOW)

    def chain(world):
        for since, update in pairwise((0, 1, 3, 8, UPDATES)):
            stopped(run_config("stopped"), update, world, since)
        stopped(run_config("whole"), UPDATES, world)

    ranks(chain)
    assert end_of(tmp_path / "stopped") == end_of(tmp_path / "whole")
