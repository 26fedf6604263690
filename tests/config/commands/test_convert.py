import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ConvertConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": []}, r"Name two paths, SOURCE and DESTINATION, not 0"),
        ({"paths": ["a"]}, r"Name two paths, SOURCE and DESTINATION, not 1"),
        ({"to": None}, r"--to is required"),
        ({"to": "onx"}, r"to must be one of toolkit, hf, onnx, but is 'onx'"),
        ({"to": "hf", "weights": "last"}, r"weights must be one of auto, trained, average"),
        ({"weights": "average"}, r"--weights requires --to hf"),
        (
            {"to": "hf", "component": "both"},
            r"component must be one of discriminator, generator, but is 'both'",
        ),
        ({"component": "generator"}, r"--component requires --to hf"),
        ({"to": "hf", "batch": 1}, r"--batch and --length require --to onnx"),
        ({"to": "onnx", "length": 0}, r"length must be at least 1, but is 0"),
    ],
)
def test_convert_rejects_impossible_options(options, message):
    with pytest.raises(ToolkitError, match=message):
        ConvertConfig(**{"paths": ["a", "b"], "to": "toolkit", **options})
