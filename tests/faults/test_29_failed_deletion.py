"""Fault 29: an old checkpoint cannot be deleted; training continues and deletes it later."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from toolkit.training.run import run

HOW = {"save_interval_updates": 1, "keep_interval_updates": 2, "keep_last_epochs": 1}
KEPT = ["checkpoint_best", "checkpoint_e2_u10", "checkpoint_e2_u8", "checkpoint_e2_u9"]
KEPT += ["checkpoint_last", "config.yaml", "environment.json", "metrics.jsonl", "result.json"]


@pytest.fixture
def fail(monkeypatch):
    """Lets the first calls of a function fail; returns the list of all calls."""

    def of(owner, name, times):
        real, calls = getattr(owner, name), []

        def failing(path, *arguments, **options):
            if "checkpoint" in str(path) and Path(path).exists():
                calls.append(str(path))
                if len(calls) <= times:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(owner, name, failing)
        return calls

    return of


@pytest.mark.slow
def test_failed_deletion_is_reported_and_retried(config, tmp_path, fail, caplog, times=3):
    calls = fail(shutil, "rmtree", times)
    assert run(config(**HOW)).updates == 10
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == KEPT
    assert len(calls) == 7 + times
    assert caplog.text.count("could not be deleted") == times
    assert "Device or resource busy" in caplog.text and "will retry later" in caplog.text


@pytest.mark.slow
def test_checkpoint_that_cannot_be_renamed_stays_complete(config, tmp_path, fail, caplog):
    real = Path.rename

    def rename(path, target):
        if "gone" in str(target) and path.name == "checkpoint_e1_u3":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        run(config(**HOW))
    assert (tmp_path / "run" / "checkpoint_e1_u3" / "manifest.json").exists()
    assert "Permission denied" in caplog.text
    run(config(**HOW, max_epoch=3))
    assert not (tmp_path / "run" / "checkpoint_e1_u3").exists()
