"""Fault 9: truncated and empty files; each is detected, and an older checkpoint used."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder
from toolkit.training.resume import find_newest_intact

TIMES = 100


def cuts(files):
    """100 (file, bytes left): each file at nothing and two bytes short, then anywhere.

    One byte short, a text may lack its last line feed and nothing else.
    """
    draw = np.random.default_rng(0)
    for number in range(TIMES):
        file = files[number % len(files)]
        size = file.stat().st_size
        turn = number // len(files)
        yield file, [0, size - 2][turn] if turn < 2 else int(draw.integers(size - 1))


@pytest.mark.slow
def test_truncated_checkpoint_files_fall_back_to_an_older_one_100_of_100(trained):
    older, newest = trained / "checkpoint_e1_u5", trained / "checkpoint_e2_u10"
    for file, left in cuts(sorted(newest.iterdir())):
        whole, messages = file.read_bytes(), []
        file.write_bytes(whole[:left])
        assert find_newest_intact(SaveFolder(trained), messages.append) == older
        assert len(messages) == 1 and file.stem in messages[0]
        file.write_bytes(whole)
    assert find_newest_intact(SaveFolder(trained), pytest.fail).samefile(newest)


def test_missing_checkpoint_file_falls_back_to_an_older_one(trained):
    for file in sorted((trained / "checkpoint_e2_u10").iterdir()):
        whole, messages = file.read_bytes(), []
        file.unlink()
        assert find_newest_intact(SaveFolder(trained), messages.append).name == "checkpoint_e1_u5"
        assert file.name in messages[0]
        file.write_bytes(whole)


def test_truncated_data_files_are_detected_on_opening_100_of_100(data, tmp_path):
    path = shutil.copytree(data, tmp_path / "data")
    for file, left in cuts(sorted(path.iterdir())):
        whole = file.read_bytes()
        file.write_bytes(whole[:left])
        with pytest.raises(ToolkitError, match=file.stem):
            DataFolder.open(path)
        file.write_bytes(whole)
    assert DataFolder.open(path)
