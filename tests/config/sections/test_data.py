import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import DataConfig


def test_the_defaults_are_valid():
    DataConfig()


@pytest.mark.parametrize(
    ("config", "values", "complaint"),
    [
        (DataConfig, {"max_tokens": 0}, "data.max_tokens must be at least 1, but is 0. Leave it"),
        (DataConfig, {"batch_size": -1}, "data.batch_size must be at least 1, but is -1"),
        (DataConfig, {"num_workers": -1}, "data.num_workers must not be negative"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(config, values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**values)
