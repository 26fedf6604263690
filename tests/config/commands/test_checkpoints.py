import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import (
    AverageConfig,
    ExportConfig,
    FlopsConfig,
    ImportConfig,
    InspectConfig,
    OnnxConfig,
)

AVERAGED = {"paths": ["run"], "output": "mean"}
PATHS = {"paths": ["a", "b"]}


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (AverageConfig, {**AVERAGED, "paths": []}, "Name the checkpoints to average, or a save fo"),
        (AverageConfig, {**AVERAGED, "output": ""}, "--output is required"),
        (AverageConfig, {**AVERAGED, "last": 0}, "last must be at least 1, but is 0"),
        (AverageConfig, {**AVERAGED, "kind": "best"}, "kind must be one of all, epochs, updates, "),
        (InspectConfig, {}, "Name a data folder or a checkpoint, or with --flops an architectu"),
        (InspectConfig, {"paths": ["x"], "examples": -1}, "examples must be at least 0, but is"),
        (FlopsConfig, {"vocabulary_size": 5}, "must be above 5, but is 5"),
        (ImportConfig, {"paths": []}, "Name two paths, SOURCE and DESTINATION, not 0"),
        (ExportConfig, {"paths": ["a"]}, "Name two paths, SOURCE and DESTINATION, not 1"),
        (ExportConfig, {**PATHS, "component": "both"}, "must be one of discriminator, generator"),
        (OnnxConfig, {**PATHS, "weights": "last"}, "weights must be one of auto, trained, average"),
        (OnnxConfig, {**PATHS, "length": 0}, "length must be at least 1, but is 0"),
    ],
)
def test_commands_for_checkpoints_reject_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)
