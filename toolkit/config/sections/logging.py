"""The `logging` section of a run: what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.config.declared import Options, PositiveInt


@dataclass(frozen=True, kw_only=True)
class LoggingConfig(Options, section="logging", title="logging"):
    """The section `logging`."""

    log_interval: PositiveInt = 100
    """Log training metrics every N updates."""
    progress: Literal["auto", "bar", "lines"] = "auto"
    """Progress display. auto: a bar on a terminal, lines elsewhere."""
    tensorboard_logdir: str | None = None
    """Folder for TensorBoard events."""
    wandb_project: str | None = None
    """Weights & Biases project to log to (needs the extra `wandb`). A resumed run continues its W&B
    run. WANDB_MODE=offline keeps the metrics in the save folder."""
