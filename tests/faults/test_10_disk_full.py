"""Fault 10: the disk fills up at any part of a checkpoint, or fails once."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager

import pytest

from toolkit.checkpoints import save_folder
from toolkit.checkpoints.load import find_checkpoint
from toolkit.checkpoints.save_folder import (
    RETRY_DELAYS_SECONDS,
    CheckpointSaveError,
    SaveFolder,
    verify_checkpoint,
)
from toolkit.cli.train import main
from toolkit.training.run import run

SHARE = 0.5
FILE_SIZE = resource.RLIMIT_FSIZE


@pytest.fixture
def no_pauses(monkeypatch):
    assert len(RETRY_DELAYS_SECONDS) == 2, "three tries"
    monkeypatch.setattr("toolkit.checkpoints.save_folder.RETRY_DELAYS_SECONDS", (0.0, 0.0))


@pytest.fixture
def fill_the_disk(monkeypatch, finished):
    """From the second save on, files cannot grow beyond a fraction of the largest."""
    hard = resource.getrlimit(FILE_SIZE)[1]
    sizes = [file.stat().st_size for file in (finished / "checkpoint_last").iterdir()]
    real, tries = save_folder.atomic_dir, []

    def fill(share, until=10**9):
        @contextmanager
        def limited(*arguments, **options):
            tries.append(1)
            full = 1 < len(tries) <= until
            most = int(share * max(sizes)) if full else resource.RLIM_INFINITY
            resource.setrlimit(FILE_SIZE, (most, hard))
            try:
                with real(*arguments, **options) as folder:
                    yield folder
            finally:
                resource.setrlimit(FILE_SIZE, (resource.RLIM_INFINITY, hard))

        monkeypatch.setattr(save_folder, "atomic_dir", limited)
        return tries

    return fill


def test_run_continues_on_a_full_disk_and_saves_once_there_is_space(
    config, tmp_path, no_pauses, fill_the_disk, caplog
):
    tries = fill_the_disk(SHARE, until=4)
    assert run(config(save_interval_updates=2, keep_interval_updates=0)).updates == 10
    names = {path.name for path in SaveFolder(tmp_path / "run").checkpoints()}
    assert names == {f"checkpoint_e{1 + (u > 5)}_u{u}" for u in (2, 5, 6, 8, 10)}, "u4 had no room"
    assert all(verify_checkpoint(tmp_path / "run" / name) for name in names)
    assert len(tries) == 8 and "Training continues; the next save will try again." in caplog.text
    assert "checkpoint_e1_u4 must be written to disk, but could not be: " in caplog.text


def test_permanently_full_disk_stops_the_run_and_keeps_older_checkpoints(
    config, tmp_path, no_pauses, fill_the_disk
):
    tries = fill_the_disk(SHARE)
    with pytest.raises(
        CheckpointSaveError, match=r"older checkpoints are complete\. That was failure 3 in a ro"
    ):
        run(config(save_interval_updates=2, keep_interval_updates=0))
    left = sorted(p.name for p in (tmp_path / "run").iterdir())
    records = ["config.yaml", "environment.json", "metrics.jsonl"]
    assert left == ["checkpoint_e1_u2", "checkpoint_last", *records]
    assert find_checkpoint(tmp_path / "run").name == "checkpoint_e1_u2" and len(tries) == 1 + 3 * 3


def test_failed_last_save_is_an_error(config, data, tmp_path, no_pauses, fill_the_disk, capsys):
    fill_the_disk(SHARE)
    small = ["--arch", "composite_bert_tiny", "--layers", "1", "--width", "16", "--heads", "2"]
    where = ["--save-dir", str(tmp_path / "run"), "--max-update", "6", "--num-workers", "0"]
    assert main([str(data), *small, "--task", "mlm", "--batch-size", "8", *where]) == 2
    assert "checkpoint_e2_u6 must be written to disk, but could not be" in capsys.readouterr().err


@pytest.mark.slow
def test_single_disk_error_is_retried(config, tmp_path, no_pauses, monkeypatch, caplog):
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(1)
        if len(calls) == 4:  # the first call is the check of the folder at the start
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert run(config()).updates == 10
    assert len(calls) > 20 and not caplog.records
    assert [p.name for p in SaveFolder(tmp_path / "run").checkpoints()] == [
        "checkpoint_e2_u10",
        "checkpoint_e1_u5",
    ]
