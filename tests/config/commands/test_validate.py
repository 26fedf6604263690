import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.validate import ValidateConfig


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"dirs": []}, r"a data folder must be given, but none is. Name one or more"),
        ({"path": []}, r"a checkpoint must be given, but none is. Pass --path"),
        ({"valid_subset": " ,"}, r"must name a split, but is empty. Leave it out for valid"),
        ({"weights": "best"}, r"weights must be one of auto, trained, average, but is 'best'"),
        ({"precision": "int8"}, r"precision must be one of auto, fp32, bf16, fp16, but is 'int8'"),
        ({"device": "tpu"}, r"device must be one of auto, cpu, cuda, but is 'tpu'"),
        ({"batch_size": 0}, r"batch_size must be at least 1, but is 0. Leave it out for no bound"),
        (
            {"json": "out", "results_path": "./out"},
            r"--json and --results-path must name two files, but both write ./out. Choose another",
        ),
        (
            {"results_path": "-", "json": "-", "predictions": "-"},
            r"--results-path and --predictions must name two files",
        ),
        ({"num_workers": -1}, r"num_workers must not be negative, but is -1"),
    ],
)
def test_what_cannot_be_evaluated_is_told_before_a_checkpoint_is_read(options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        ValidateConfig(**{"dirs": ["data"], "path": ["run"], **options})
