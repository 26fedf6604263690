import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import AverageConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": []}, r"Name the checkpoints to average, or a save folder"),
        ({"output": ""}, r"--output is required"),
        ({"last": 0}, r"last must be at least 1, but is 0"),
        ({"last": 3, "kind": "best"}, r"kind must be one of all, epochs, updates, but is 'best'"),
        ({"kind": "epochs"}, r"--kind requires --last"),
    ],
)
def test_average_rejects_impossible_options(options, message):
    with pytest.raises(ToolkitError, match=message):
        AverageConfig(**{"paths": ["run"], "output": "mean", **options})
