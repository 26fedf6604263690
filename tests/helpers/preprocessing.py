"""Options of toolkit-preprocess, of any format, as one config."""

from __future__ import annotations

from typing import Any

from toolkit.config.commands.preprocess import PREPROCESS, PreprocessConfig
from toolkit.config.load import resolve_mapping


def preprocess_config(**options: Any) -> PreprocessConfig:
    """The config that these options mean on a command line."""
    config = resolve_mapping(options, PREPROCESS).build_configs()[""]
    assert isinstance(config, PreprocessConfig)
    return config
