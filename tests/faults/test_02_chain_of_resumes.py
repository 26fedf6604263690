"""Scenario 2: a run stopped after each of its 20 updates ends as an uninterrupted one."""

from __future__ import annotations

from itertools import pairwise

import pytest

HOW = {"max_epoch": 4, "log_interval": 7, "validate_interval_updates": 2, "lr": 0.01}


@pytest.mark.slow
def test_run_of_two_ranks_stopped_after_each_update_resumes_bit_for_bit(
    config, tmp_path, stopped, end_of, ranks
):
    def run_config(name):
        return config(save_dir=str(tmp_path / name), batch_size=4, **HOW)

    def chain(world):
        for since, update in pairwise((0, 1, 2, 3, 5, 8, 13, 20)):
            stopped(run_config("stopped"), update, world, since)
        stopped(run_config("whole"), 20, world)

    ranks(chain)
    assert end_of(tmp_path / "stopped") == end_of(tmp_path / "whole")
