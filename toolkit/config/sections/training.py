"""The `training` section of a run: length, updates, hardware, validation, failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import (
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveInt,
    Rate,
    Seconds,
)
from toolkit.config.option_groups import PrecisionOptions
from toolkit.config.options import ADVANCED


@dataclass(frozen=True, kw_only=True)
class StoppingOptions(Options, title="when to stop"):
    """Options that end a run."""

    max_update: NonNegativeInt | None = None
    """Stop after N updates. This or --max-epoch is required."""
    max_epoch: NonNegativeInt | None = None
    """Stop after N epochs. This or --max-update is required."""
    stop_time_hours: NonNegativeFloat = field(default=0.0, metadata=ADVANCED)
    """Stop with a checkpoint after this many hours, including those before resuming (0: never)."""
    stop_min_lr: NonNegativeFloat = field(default=0.0, metadata=ADVANCED)
    """Stop when the learning rate falls to this (0: never)."""
    patience: NonNegativeInt = 0
    """Early stopping: stop after this many consecutive validations without improvement (0:
    never)."""


@dataclass(frozen=True, kw_only=True)
class UpdateOptions(Options, title="updates"):
    """Options of one update."""

    update_freq: PositiveInt = 1
    """Gradient accumulation: micro-batches per update on each rank."""
    micro_batches_per_update: PositiveInt | None = field(default=None, metadata=ADVANCED)
    """Micro-batches per update over all ranks, instead of --update-freq: the same run on any number
    of ranks that divides it."""
    clip_norm: NonNegativeFloat = 1.0
    """Gradient clipping: maximum gradient norm; larger gradients are scaled down to it (0: off)."""
    seed: int = 1
    """Random seed of initialization, data order, masking and dropout."""
    freeze: list[str] = field(default_factory=list)
    """Modules of the encoder that are not trained and have no dropout, such as
    embeddings,layers.0-5. encoder freezes all of it (linear probe)."""
    ema_decay: Rate = 0.0
    """Decay of an exponential moving average (EMA) of the weights, such as 0.999, which is then
    validated and used in place of the weights (0: none)."""
    ema_warmup: bool = field(default=True, metadata=ADVANCED)
    """Start with a low --ema-decay and raise it as (1 + n) / (10 + n) over the updates n, to forget
    the initial weights sooner."""


@dataclass(frozen=True, kw_only=True)
class TrainingDeviceOptions(PrecisionOptions, title="device and precision"):
    """Options of device, precision and distribution in training."""

    fp16: bool = field(default=False, metadata=ADVANCED)
    """Short for --precision fp16."""
    bf16: bool = field(default=False, metadata=ADVANCED)
    """Short for --precision bf16."""
    sharding: Literal["none", "full"] = "none"
    """Distributed training. none: every rank keeps the whole model (DDP); full: parameters,
    gradients and optimizer states are sharded over the ranks (FSDP2). Needs torchrun."""
    checkpoint_activations: bool = False
    """Activation checkpointing, also called gradient checkpointing: recompute each layer in the
    backward pass to save memory."""
    compile: bool = False
    """Compile layers and heads with torch.compile. The first updates are slow."""
    packing: bool = field(default=True, metadata=ADVANCED)
    """On a GPU, encode sentences without padding and with attention in one Triton kernel, if the
    architecture allows it."""
    cuda_graph: Literal["auto", "off"] = field(default="off", metadata=ADVANCED)
    """CUDA graphs, for batches below 65,536 tokens on one GPU. auto: record the kernels of each
    batch shape that repeats, and launch them together: several times as fast for small batches."""


@dataclass(frozen=True, kw_only=True)
class ValidationOptions(Options, title="validation"):
    """Options of validation during training."""

    validate_interval_updates: NonNegativeInt = 0
    """Validate every N updates, in addition to the end of each epoch (0: only there)."""
    best_metric: str = "loss"
    """Metric of the first validation split that selects the best checkpoint."""


@dataclass(frozen=True, kw_only=True)
class FailureOptions(Options, title="failures"):
    """Options for bad updates, diverging ranks and lack of memory."""

    skip_spikes: bool = field(default=False, metadata=ADVANCED)
    """Skip an update if its loss or gradient norm is more than 6 standard deviations above the mean
    of the last 128 updates. A non-finite loss or gradient norm is always skipped."""
    check_ranks_interval: NonNegativeInt = field(default=100, metadata=ADVANCED)
    """Compare the parameters and gradient norms of all ranks every N updates (0: never)."""
    memory_probe: Literal["auto", "always", "never"] = field(default="auto", metadata=ADVANCED)
    """Try the largest batch before training, so that running out of memory shows immediately. auto:
    only on a GPU."""
    timeout_seconds: Seconds = field(default=1800.0, metadata=ADVANCED)
    """Abort all ranks if one waits longer than this for another, and name the stalled rank."""


@dataclass(frozen=True, kw_only=True)
class CallbackOptions(Options, title="callbacks of plugins"):
    """Selection of callbacks of plugins."""

    callbacks: list[str] = field(default_factory=list)
    """Names of callbacks of --user-dir folders, in the order of their calls. Their options are
    --callback.NAME.OPTION."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(
    StoppingOptions,
    UpdateOptions,
    TrainingDeviceOptions,
    ValidationOptions,
    FailureOptions,
    CallbackOptions,
    section="training",
):
    """The section `training`: all of its groups of options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.micro_batches_per_update is not None and self.update_freq != 1:
            raise ToolkitError(
                "training.update_freq cannot be combined with training.micro_batches_per_update, "
                "which determines it."
            )
        if self.fp16 and self.bf16:
            raise ToolkitError("--fp16 cannot be combined with --bf16.")
        short = "fp16" if self.fp16 else "bf16" if self.bf16 else self.precision
        if self.precision not in ("auto", short):
            raise ToolkitError(f"--{short} cannot be combined with --precision {self.precision}.")

    def micro_batches_per_rank(self, ranks: int) -> int:
        """Micro-batches that each rank accumulates for one update."""
        if self.micro_batches_per_update is None:
            return self.update_freq
        total = self.micro_batches_per_update
        if total % ranks:
            possible = [n for n in range(1, min(total, 1024) + 1) if total % n == 0]
            raise ToolkitError(
                f"training.micro_batches_per_update must be a multiple of the number of ranks, but "
                f"is {total} for {ranks}. Start one of {', '.join(map(str, possible))} processes."
            )
        return total // ranks
