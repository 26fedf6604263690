"""Options of toolkit-preprocess, of any format, as one config."""

from __future__ import annotations

from typing import Any

from toolkit.config.commands.preprocess import PREPROCESS, PreprocessConfig
from toolkit.config.load import compose_config


def preprocess_config(**options: Any) -> PreprocessConfig:
    """The config that these options mean on a command line."""
    config = compose_config(options, PREPROCESS)
    assert isinstance(config, PreprocessConfig)
    return config
