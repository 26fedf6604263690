"""How long and how a run learns."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.checks import DEVICES, PRECISIONS, check_choice, require


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    update_freq: int = 1
    """Micro-batches that each rank accumulates for one update."""
    micro_batches_per_update: int | None = None
    """Micro-batches of one update over all ranks, in place of update_freq: the same run at any
    number of ranks that divides it."""
    sharding: str = "none"
    """none or full. none keeps everything on every rank (DDP); full keeps a share of parameters,
    gradients and optimizer on each (FSDP2). Needs torchrun."""
    checkpoint_activations: bool = False
    """Compute each layer anew in the backward pass: less memory, more time, the same gradients."""
    compile: bool = False
    """Compile each layer with torch.compile; the first updates take long."""

    def __post_init__(self) -> None:
        for name in ("update_freq", "micro_batches_per_update"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"training.{name} must be at least 1, but is {value}.",
            )
        require(
            self.micro_batches_per_update is None or self.update_freq == 1,
            "training.update_freq must be left out where training.micro_batches_per_update is "
            "given, but "
            f"is {self.update_freq}. {self.micro_batches_per_update} micro-batches over all ranks "
            "determine "
            f"it.",
        )
        check_choice("training.sharding", self.sharding, ("none", "full"))

    def micro_batches_per_rank(self, ranks: int) -> int:
        """What each rank accumulates for one update."""
        if self.micro_batches_per_update is None:
            return self.update_freq
        possible = [
            n
            for n in range(1, self.micro_batches_per_update + 1)
            if self.micro_batches_per_update % n == 0
        ]
        require(
            ranks in possible,
            f"training.micro_batches_per_update must be a multiple of the number of ranks, but is "
            f"{self.micro_batches_per_update} for {ranks}. Start one of "
            f"{', '.join(map(str, possible))} "
            f"processes.",
        )
        return self.micro_batches_per_update // ranks


PROBES = ("auto", "always", "never")


@dataclass(frozen=True, kw_only=True)
class TroubleConfig:
    skip_spikes: bool = False
    """Skip an update whose loss or gradient norm lies more than 6 standard deviations above the
    mean of the 128 updates before it. One that is not finite is always skipped."""
    check_ranks_interval: int = 100
    """Compare the parameters and the gradient norm of all ranks every so many updates; 0 for
    never."""
    memory_probe: str = "auto"
    """Try the largest batch before training, so that a lack of memory shows at once: auto, always
    or never. auto is always on a GPU and never on a CPU."""
    timeout_seconds: float = 1800.0
    """End all ranks, naming the late one, when one has waited for another for so long."""

    def __post_init__(self) -> None:
        check_choice("training.memory_probe", self.memory_probe, PROBES)
        require(
            self.check_ranks_interval >= 0,
            f"training.check_ranks_interval must not be negative, but is "
            f"{self.check_ranks_interval}. 0 is never.",
        )
        require(
            self.timeout_seconds > 0,
            f"training.timeout_seconds must be above 0, but is {self.timeout_seconds}.",
        )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(ScaleConfig, TroubleConfig):
    max_update: int | None = None
    """Stop after this many updates. This or max_epoch must be given."""
    max_epoch: int | None = None
    """Stop after this many passes over the data. This or max_update must be given."""
    stop_time_hours: float = 0.0
    """Stop with a checkpoint after so many hours, those of the runs it goes on from included; 0
    for never."""
    stop_min_lr: float = 0.0
    """Stop when the learning rate has fallen to this; 0 for never."""
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
    ema_decay: float = 0.0
    """Share of the old average that a moving average of the weights keeps at each update, such as
    0.999; it is then what is validated and used. 0 for no average."""
    ema_warmup: bool = True
    """Let ema_decay begin low and rise as (1 + n) / (10 + n) with the updates n, which forgets the
    first weights sooner."""

    def __post_init__(self) -> None:
        ScaleConfig.__post_init__(self)
        TroubleConfig.__post_init__(self)
        check_choice("training.precision", self.precision, PRECISIONS)
        check_choice("training.device", self.device, DEVICES)
        require(not (self.fp16 and self.bf16), "--fp16 and --bf16 exclude each other; give one.")
        asked = "fp16" if self.fp16 else "bf16" if self.bf16 else self.precision
        require(
            self.precision in ("auto", asked),
            f"training.precision is {self.precision}, but --{asked} was given too; give one.",
        )
        require(
            self.clip_norm >= 0,
            f"training.clip_norm must not be negative, but is {self.clip_norm}. 0 is no bound.",
        )
        require(
            0 <= self.ema_decay < 1,
            f"training.ema_decay must be at least 0 and below 1, but is {self.ema_decay}.",
        )
        for name in ("stop_time_hours", "stop_min_lr"):
            value = getattr(self, name)
            require(
                value >= 0,
                f"training.{name} must not be negative, but is {value}. 0 is never.",
            )
        for name in ("max_update", "max_epoch"):
            value = getattr(self, name)
            require(
                value is None or value >= 0,
                f"training.{name} must not be negative, but is {value}.",
            )
