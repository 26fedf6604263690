"""A complete, resolved training run: what load returns and what a checkpoint remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolkit.config.sections import CheckpointConfig, DataConfig, LoggingConfig, TrainingConfig


@dataclass(frozen=True)
class ComponentConfig:
    """The name the user gave for one kind of component, and its complete config."""

    name: str
    config: Any


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    arch: ComponentConfig
    task: ComponentConfig
    criterion: ComponentConfig
    optimizer: ComponentConfig
    lr_scheduler: ComponentConfig
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
