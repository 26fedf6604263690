import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.average import AverageConfig


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"paths": []}, r"checkpoints must be named, but none is. Name them, or a save folder"),
        ({"output": ""}, r"--output must name a folder, but is missing. Choose a new one"),
        ({"last": 0}, r"last must be at least 1, but is 0. Leave it out to name checkpoints"),
        ({"last": 3, "kind": "best"}, r"kind must be one of all, epochs, updates, but is 'best'"),
        ({"kind": "epochs"}, r"kind must be left out where --last is not given, but is epochs"),
    ],
)
def test_what_cannot_be_averaged_is_told(options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        AverageConfig(**{"paths": ["run"], "output": "mean", **options})
