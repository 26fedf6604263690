import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.convert import ConvertConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": []}, r"SRC and DST must be named, but 0 paths are given"),
        ({"paths": ["a"]}, r"SRC and DST must be named, but 1 path is given"),
        ({"to": ""}, r"--to must be toolkit or hf, but is ''"),
        ({"to": "onnx"}, r"--to must be toolkit or hf, but is 'onnx'"),
        ({"to": "hf", "weights": "last"}, r"weights must be one of auto, trained, average"),
        ({"weights": "average"}, r"weights must be left out with --to toolkit"),
        (
            {"to": "hf", "component": "both"},
            r"component must be discriminator or generator, but is 'both'",
        ),
        ({"component": "generator"}, r"component must be left out with --to toolkit"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ToolkitError, match=message):
        ConvertConfig(**{"paths": ["a", "b"], "to": "toolkit", **options})
