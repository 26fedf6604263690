import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dirs": []}, r"Name a data folder to evaluate on"),
        ({"path": []}, r"--path is required"),
        ({"valid_subset": " ,"}, r"--valid-subset must name a split, but is empty"),
        ({"weights": "best"}, r"weights must be one of auto, trained, average, but is 'best'"),
        ({"precision": "int8"}, r"precision must be one of auto, fp32, tf32, bf16, fp16, but"),
        ({"device": "tpu"}, r"device must be one of auto, cpu, cuda, mps, xpu, but is 'tpu'"),
        ({"batch_size": 0}, r"batch_size must be at least 1, but is 0"),
        (
            {"json": "out", "results_path": "./out"},
            r"--json and --results-path must name different files, but both are ./out",
        ),
        (
            {"results_path": "a", "json": "-", "predictions": "./a"},
            r"--results-path and --predictions must name different files",
        ),
        ({"num_workers": -1}, r"num_workers must be at least 0, but is -1"),
    ],
)
def test_validate_rejects_impossible_options(options, message):
    with pytest.raises(ToolkitError, match=message):
        ValidateConfig(**{"dirs": ["data"], "path": ["run"], **options})
