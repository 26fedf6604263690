import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import CheckpointConfig


def test_the_defaults_are_valid():
    CheckpointConfig()


@pytest.mark.parametrize(
    ("config", "values", "complaint"),
    [
        (CheckpointConfig, {"keep_last_epochs": -1}, "checkpoint.keep_last_epochs must not be neg"),
        (CheckpointConfig, {"keep_best_checkpoints": -1}, "keep_best_checkpoints must not be neg"),
        (
            CheckpointConfig,
            {"max_failed_saves": 0},
            "checkpoint.max_failed_saves must be at least 1, but",
        ),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(config, values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**values)
