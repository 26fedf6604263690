import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import FlopsConfig, InspectConfig


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (InspectConfig, {}, r"Name a data folder or a checkpoint, or with --flops an architectu"),
        (InspectConfig, {"paths": ["x"], "examples": -1}, r"examples must be at least 0, but is"),
        (InspectConfig, {"paths": ["x"], "shuffles": 9}, r"^--shuffles requires --word-order, "),
        (InspectConfig, {"paths": ["x"], "limit": 5}, r"^--limit requires --word-order, "),
        (InspectConfig, {"paths": ["x"], "word_order": ""}, r"^--word-order must be .* is ''\. N"),
        (
            FlopsConfig,
            {},
            r"--arch requires --flops",
        ),
        (FlopsConfig, {"flops": True, "vocabulary_size": 5}, r"must be above 5, but is 5"),
    ],
)
def test_inspect_rejects_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)
