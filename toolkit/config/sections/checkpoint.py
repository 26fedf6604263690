"""What a run saves and goes on from."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.checks import require


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    save_dir: str = "checkpoints"
    """Folder of the checkpoints, the log and the result; training goes on from what is there."""
    restore_file: str | None = None
    """Checkpoint to go on from, or save folder, whose last one is meant. One of another folder only
    begins the run: given again after a stop, the command goes on where it stopped."""
    finetune_from: str | None = None
    """Checkpoint whose weights to start from, and whose architecture where --arch names none;
    nothing else of it is taken."""
    save_interval_updates: int = 0
    """Save every so many updates, besides at the end of each epoch; 0 for only there."""
    keep_last_epochs: int = 0
    """Keep only so many end-of-epoch checkpoints; 0 keeps all. Last and best always stay."""
    keep_interval_updates: int = 1
    """Keep only so many checkpoints saved in between; 0 keeps all."""
    keep_interval_updates_pattern: int = 0
    """Keep also those in between whose update is a multiple of this; 0 for none."""
    keep_best_checkpoints: int = 0
    """Keep also so many of those best by training.best_metric; 0 for checkpoint_best alone."""
    max_failed_saves: int = 3
    """Stop after so many saves in a row that could not be written, 1 or more; fewer are told."""
    no_save: bool = False
    """Save no checkpoints at all, only the log and the result."""

    def __post_init__(self) -> None:
        counts = ("keep_last_epochs", "keep_interval_updates", "keep_interval_updates_pattern")
        for name in ("save_interval_updates", *counts, "keep_best_checkpoints"):
            value = getattr(self, name)
            require(value >= 0, f"checkpoint.{name} must not be negative, but is {value}.")
        require(
            self.max_failed_saves > 0,
            f"checkpoint.max_failed_saves must be at least 1, but is {self.max_failed_saves}.",
        )
