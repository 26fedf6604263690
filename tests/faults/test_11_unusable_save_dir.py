"""Fault 11: an unusable save folder is reported at the start, before anything else.

The data folder of these runs does not exist either: whoever gets as far as that has begun too late.
"""

from __future__ import annotations

import errno
import os

import pytest

from toolkit.training.run import run


def refused(config, folder, reason):
    with pytest.raises(OSError, match=f"{reason}.*{folder}"):
        run(config(save_dir=str(folder), dirs=["nowhere"]))


def test_save_dir_that_is_a_file_is_reported(config, tmp_path):
    (tmp_path / "file").write_text("")
    refused(config, tmp_path / "file", "File exists")
    refused(config, tmp_path / "file" / "run", "Not a directory")


def test_save_dir_that_is_a_broken_link_is_reported(config, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "unmounted" / "disk")
    refused(config, tmp_path / "link", "(File exists|No such file or directory)")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EROFS, "Read-only file system"),
        (errno.ENOSPC, "No space left on device"),
    ],
)
def test_save_dir_on_a_full_file_system_is_reported(config, tmp_path, monkeypatch, number, reason):
    def fsync(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    refused(config, tmp_path / "run", reason)
