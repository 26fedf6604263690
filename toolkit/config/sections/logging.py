"""What a run reports."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.checks import check_choice, require


@dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    log_interval: int = 100
    """Report training figures every so many updates."""
    progress: str = "auto"
    """auto, bar or lines. auto draws a bar on a terminal and prints lines elsewhere."""
    tensorboard_logdir: str | None = None
    """Folder to write TensorBoard events to."""
    wandb_project: str | None = None
    """Project of Weights & Biases to report to, which the extra `wandb` installs; a run that goes
    on is continued there. WANDB_MODE=offline keeps the figures in the save folder."""

    def __post_init__(self) -> None:
        require(
            self.log_interval > 0,
            f"logging.log_interval must be at least 1, but is {self.log_interval}.",
        )
        check_choice("logging.progress", self.progress, ("auto", "bar", "lines"))
