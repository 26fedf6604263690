import shutil
from collections import namedtuple

import pytest
from torch import nn

from toolkit.training.disk_space import disk_space_warning, estimate_checkpoint_bytes

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def learner():
    return nn.Linear(256, 1023, bias=False)  # 1 MiB less 1 KiB


@pytest.fixture
def disk(monkeypatch):
    def of(free):
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, free))

    return of


def test_estimate_counts_weights_and_two_moments_of_trained_parameters(learner):
    assert estimate_checkpoint_bytes(learner) == 3 * 1023 * 1024
    learner.weight.requires_grad_(False)
    assert estimate_checkpoint_bytes(learner) == 1023 * 1024


def test_disk_space_warning_is_empty_if_there_is_space(learner, disk, tmp_path):
    disk(9 * 1023 * 1024)
    assert disk_space_warning(tmp_path, learner, existing=0) == ""


def test_disk_space_warning_names_both_sizes(learner, disk, tmp_path):
    disk(9 * 1023 * 1024 - 1)
    warning = disk_space_warning(tmp_path, learner, existing=0)
    assert f"{tmp_path} has 9.0 MiB left, but" in warning and "take about 3.0 MiB each" in warning
    assert disk_space_warning(tmp_path, learner, existing=1) == ""


def test_disk_space_warning_counts_only_checkpoints_to_come(learner, disk, tmp_path):
    disk(3 * 1023 * 1024 - 1)
    assert disk_space_warning(tmp_path, learner, existing=50)
