import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import GenerateConfig


def test_a_checkpoint_must_be_named():
    with pytest.raises(ToolkitError, match=r"--path must name a checkpoint, but is missing"):
        GenerateConfig()


def test_counts_must_be_positive():
    with pytest.raises(ToolkitError, match=r"top must be at least 1, but is 0"):
        GenerateConfig(path=["run"], top=0)


def test_weights_are_of_a_known_kind():
    with pytest.raises(ToolkitError, match=r"weights must be one of auto, .*, but is 'traind'"):
        GenerateConfig(path=["run"], weights="traind")
