import os
import signal

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from toolkit.cli.command import fail
from toolkit.common import system


@pytest.fixture
def launched(monkeypatch):
    """Sets the environment of a rank of torchrun; the list of its pauses."""
    pauses = []
    monkeypatch.setattr(system.time, "sleep", pauses.append)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    monkeypatch.setenv("LOCAL_RANK", "1")
    return pauses


def test_other_ranks_wait_for_the_first_one_to_report_an_error(launched, monkeypatch):
    fail("toolkit-train", "no such file")
    assert launched == [system.REPORT_SECONDS]
    monkeypatch.setenv("LOCAL_RANK", "0")
    fail("toolkit-train", "no such file")
    assert len(launched) == 1


def test_recorded_error_is_the_one_that_torchrun_shows(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    system.record_error("toolkit-train: No such data folder: \udcff.")
    failure = ProcessFailure(0, 1, 2, str(path))
    assert failure.message["extraInfo"]["py_callstack"].startswith("toolkit-train: No such data")
    assert failure.timestamp > 0


def test_process_ends_with_torchrun(launched, monkeypatch):
    parents, killed = iter([7, 7, 7, 1]), []
    monkeypatch.setattr(system.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(system.os, "kill", lambda *arguments: killed.append(arguments))
    system.stop_with_parent().join(10)
    assert killed == [(os.getpid(), signal.SIGTERM)] and len(launched) == 2
