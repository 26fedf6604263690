import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import (
    AverageConfig,
    ExportConfig,
    InspectConfig,
    ValidateConfig,
)

AVERAGED = {"paths": ["run"], "output": "mean"}
RUN = {"dirs": ["data"], "path": ["run"]}


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (AverageConfig, {**AVERAGED, "paths": []}, "Name the checkpoints to average, or a save fo"),
        (AverageConfig, {**AVERAGED, "output": ""}, "--output is required"),
        (InspectConfig, {}, "Name a data folder or a checkpoint, or with --flops an architectu"),
        (ExportConfig, {"paths": ["a"]}, "Name two paths, SOURCE and DESTINATION, not 1"),
        (ValidateConfig, {**RUN, "dirs": []}, r"Name a data folder to evaluate on"),
        (ValidateConfig, {**RUN, "path": []}, r"--path is required"),
        (ValidateConfig, {**RUN, "valid_subset": " ,"}, r"--valid-subset must name a split, but"),
        (
            ValidateConfig,
            {**RUN, "json": "out", "results_path": "./out"},
            r"--json and --results-path must name different files, but both are ./out",
        ),
    ],
)
def test_commands_for_checkpoints_reject_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)
