import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ExportConfig, ImportConfig, OnnxConfig


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (ImportConfig, {"paths": []}, r"Name two paths, SOURCE and DESTINATION, not 0"),
        (ExportConfig, {"paths": ["a"]}, r"Name two paths, SOURCE and DESTINATION, not 1"),
        (OnnxConfig, {"weights": "last"}, r"weights must be one of auto, trained, average"),
        (ExportConfig, {"component": "both"}, r"component must be one of discriminator, generator"),
        (OnnxConfig, {"length": 0}, r"length must be at least 1, but is 0"),
    ],
)
def test_convert_rejects_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**{"paths": ["a", "b"], **options})
