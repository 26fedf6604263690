import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig


def test_the_defaults_are_valid():
    TrainingConfig()


@pytest.mark.parametrize(
    ("config", "values", "complaint"),
    [
        (TrainingConfig, {"precision": "int8"}, "one of auto, fp32, bf16, fp16, but is 'int8'"),
        (TrainingConfig, {"fp16": True, "bf16": True}, "--fp16 and --bf16 exclude each other"),
        (TrainingConfig, {"precision": "fp32", "bf16": True}, "precision is fp32, but --bf16 was"),
        (
            TrainingConfig,
            {"device": "tpu"},
            "training.device must be one of auto, cpu, cuda, but is",
        ),
        (TrainingConfig, {"update_freq": 0}, "training.update_freq must be at least 1, but is 0"),
        (TrainingConfig, {"clip_norm": -1.0}, "training.clip_norm must not be negative, but is -1"),
        (TrainingConfig, {"max_update": -1}, "training.max_update must not be negative, but is -1"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(config, values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**values)


def test_a_precision_may_be_given_twice_if_it_is_the_same():
    assert TrainingConfig(precision="bf16", bf16=True).bf16
