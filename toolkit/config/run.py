"""The complete configuration of a training run, as load returns it and checkpoints store it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.config.sections import CheckpointConfig, DataConfig, LoggingConfig, TrainingConfig


@dataclass(frozen=True)
class ComponentConfig:
    """Name and complete config of a component."""

    name: str
    config: Any


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The configuration of a training run, with its components and sections."""

    arch: ComponentConfig
    task: ComponentConfig
    criterion: ComponentConfig
    optimizer: ComponentConfig
    lr_scheduler: ComponentConfig
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    callbacks: Mapping[str, Any] = field(default_factory=dict)
    """Name -> config of each callback that training.callbacks selects. A run that was read without
    their plugins has none."""
