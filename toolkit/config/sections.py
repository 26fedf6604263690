"""The sections of a training run that are not components: one field, one option, one help text."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.common.errors import ToolkitError


def require(holds: bool, message: str) -> None:
    """Raise the message as a user's error unless the rule holds."""
    if not holds:
        raise ToolkitError(message)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    folders: list[str] = field(default_factory=list)
    """Folders that toolkit-preprocess wrote; the positional arguments of toolkit-train."""
    train_subset: str = "train"
    """Split to learn from."""
    valid_subset: str = "valid"
    """Splits to validate on, separated by commas; empty for none."""
    max_tokens: int | None = None
    """Most tokens in one micro-batch, padding included."""
    batch_size: int | None = None
    """Most examples in one micro-batch. Without this and max_tokens, 32."""
    num_workers: int = 1
    """Processes that prepare batches ahead of the trainer; 0 prepares them in between."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch_size"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"data.{name} must be at least 1, but is {value}. Leave it out for no bound.",
            )
        require(
            self.num_workers >= 0, f"data.num_workers must not be negative: {self.num_workers}."
        )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    max_update: int | None = None
    """Stop after this many updates."""
    max_epoch: int | None = None
    """Stop after this many passes over the data."""
    update_freq: int = 1
    """Micro-batches that each rank accumulates for one update."""
    clip_norm: float = 1.0
    """Largest norm of the gradient; larger ones are scaled down to it. 0 for no bound."""
    seed: int = 1
    """Seed of everything random: first weights, order of the data, masking, dropout."""
    precision: str = "auto"
    """auto, fp32, bf16 or fp16. auto is bf16 where the hardware is fast at it, else fp32."""
    fp16: bool = False
    """Short for precision=fp16."""
    bf16: bool = False
    """Short for precision=bf16."""
    device: str = "auto"
    """auto, cpu or cuda. auto is cuda where there is one."""
    validate_interval_updates: int = 0
    """Validate every so many updates, besides at the end of each epoch; 0 for only there."""
    patience: int = 0
    """Stop after so many validations in a row that did not improve the best; 0 for never."""
    best_metric: str = "loss"
    """Validation figure that decides which checkpoint is best (of the first validation split)."""

    def __post_init__(self) -> None:
        known = ("auto", "fp32", "bf16", "fp16")
        require(
            self.precision in known,
            f"training.precision must be one of {', '.join(known)}, but is {self.precision!r}.",
        )
        require(not (self.fp16 and self.bf16), "--fp16 and --bf16 exclude each other; give one.")
        asked = "fp16" if self.fp16 else "bf16" if self.bf16 else self.precision
        require(
            self.precision in ("auto", asked),
            f"training.precision is {self.precision}, but --{asked} was given too; give one.",
        )
        require(
            self.device in ("auto", "cpu", "cuda"),
            f"training.device must be auto, cpu or cuda, but is {self.device!r}.",
        )
        require(
            self.update_freq > 0,
            f"training.update_freq must be at least 1, but is {self.update_freq}.",
        )
        require(
            self.clip_norm >= 0,
            f"training.clip_norm must not be negative, but is {self.clip_norm}. 0 is no bound.",
        )
        for name in ("max_update", "max_epoch"):
            value = getattr(self, name)
            require(
                value is None or value >= 0,
                f"training.{name} must not be negative, but is {value}.",
            )


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


@dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    log_interval: int = 100
    """Report training figures every so many updates."""
    progress: str = "auto"
    """auto, bar or lines. auto draws a bar on a terminal and prints lines elsewhere."""
    tensorboard_logdir: str | None = None
    """Folder to write TensorBoard events to."""

    def __post_init__(self) -> None:
        require(
            self.log_interval > 0,
            f"logging.log_interval must be at least 1, but is {self.log_interval}.",
        )
        require(
            self.progress in ("auto", "bar", "lines"),
            f"logging.progress must be auto, bar or lines, but is {self.progress!r}.",
        )
