"""What a run saves and goes on from."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections.require import require


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    save_dir: str = "checkpoints"
    """Folder of the checkpoints, the log and the result; training goes on from what is there."""
    restore_file: str | None = None
    """Checkpoint to go on from, in place of checkpoint_last in the save folder."""
    finetune_from: str | None = None
    """Checkpoint whose weights to start from; nothing else of it is taken."""
    save_interval_updates: int = 0
    """Save every so many updates, besides at the end of each epoch; 0 for only there."""
    keep_last_epochs: int = 0
    """Keep only so many end-of-epoch checkpoints; 0 keeps all. Last and best always stay."""
    keep_interval_updates: int = 1
    """Keep only so many checkpoints saved in between; 0 keeps all."""
    no_save: bool = False
    """Save no checkpoints at all, only the log and the result."""

    def __post_init__(self) -> None:
        for name in ("save_interval_updates", "keep_last_epochs", "keep_interval_updates"):
            value = getattr(self, name)
            require(value >= 0, f"checkpoint.{name} must not be negative, but is {value}.")
