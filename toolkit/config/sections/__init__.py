"""The sections of a run that are not components."""

from toolkit.config.sections.checkpoint import CheckpointConfig as CheckpointConfig
from toolkit.config.sections.data import DataConfig as DataConfig
from toolkit.config.sections.logging import LoggingConfig as LoggingConfig
from toolkit.config.sections.training import TrainingConfig as TrainingConfig
