import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import LoggingConfig


def test_the_defaults_are_valid():
    LoggingConfig()


@pytest.mark.parametrize(
    ("config", "values", "complaint"),
    [
        (LoggingConfig, {"log_interval": 0}, "logging.log_interval must be at least 1, but is 0"),
        (LoggingConfig, {"progress": "loud"}, "must be one of auto, bar, lines, but is 'loud'"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(config, values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**values)
