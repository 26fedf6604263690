"""Fault 26: clock jumps and wrong file dates; the last checkpoint has the most updates."""

from __future__ import annotations

import os
import time

import pytest

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.reporting.runs import read_log
from toolkit.training.run import run


@pytest.fixture
def leaping_clock(monkeypatch):
    """The wall clock goes back a year whenever it is read."""
    now = [time.time()]

    def look():
        now[0] -= 365 * 86400.0
        return now[0]

    monkeypatch.setattr(time, "time", look)
    monkeypatch.setattr(time, "time_ns", lambda: int(look() * 1e9))


def reverse_dates(folder):
    """Checkpoints with fewer updates get later dates."""
    for path in SaveFolder(folder).checkpoints():
        update = int(path.name.rpartition("u")[2])
        for file in (*path.iterdir(), path):
            os.utime(file, (10**9 - update, 10**9 - update))


@pytest.mark.slow
def test_run_does_not_depend_on_clock_jumps(config, tmp_path, leaping_clock):
    options = {"save_interval_updates": 2, "keep_interval_updates": 2, "log_interval": 1}
    run(config(**options, max_update=7))
    reverse_dates(tmp_path / "run")
    result = run(config(**options))
    saves = SaveFolder(tmp_path / "run")
    assert [path.name for path in saves.checkpoints()] == [
        f"checkpoint_e{1 + (update > 5)}_u{update}" for update in (10, 8, 7, 5)
    ]
    records = [r for r in read_log(saves.path / "metrics.jsonl") if r["event"] == "train"]
    assert [r["update"] for r in records] == list(range(1, 11)) and result.updates == 10
    seconds = [r["seconds"] for r in records]
    assert seconds == sorted(seconds) and seconds[0] > 0
