"""The sections of a run that are not components."""

from toolkit.config.checks import DEVICES as DEVICES
from toolkit.config.checks import PRECISIONS as PRECISIONS
from toolkit.config.checks import check_choice as check_choice
from toolkit.config.checks import check_distinct_files as check_distinct_files
from toolkit.config.checks import require as require
from toolkit.config.sections.checkpoint import CheckpointConfig as CheckpointConfig
from toolkit.config.sections.data import DataConfig as DataConfig
from toolkit.config.sections.logging import LoggingConfig as LoggingConfig
from toolkit.config.sections.training import TrainingConfig as TrainingConfig
