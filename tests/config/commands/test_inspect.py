import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.inspect import FlopsConfig, InspectConfig


@pytest.mark.parametrize(
    ("config", "options", "complaint"),
    [
        (InspectConfig, {}, r"must be named, but none is. Name one, or with --flops an architectu"),
        (InspectConfig, {"paths": ["x"], "examples": -1}, r"examples must not be negative, but is"),
        (
            FlopsConfig,
            {},
            r"flops must be asked for where --arch is given, but is not. Add --flops",
        ),
        (FlopsConfig, {"flops": True, "vocabulary_size": 5}, r"must be more than 5, but is 5"),
    ],
)
def test_what_cannot_be_told_is_refused(config, options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**options)
