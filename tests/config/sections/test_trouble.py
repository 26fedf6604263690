import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"memory_probe": "now"}, "memory_probe must be one of auto, always, never, but is 'now'"),
        ({"check_ranks_interval": -1}, "training.check_ranks_interval must not be negative, but"),
        ({"timeout_seconds": 0.0}, "training.timeout_seconds must be above 0, but is 0.0"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        TrainingConfig(**values)
