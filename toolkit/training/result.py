"""What a run prints at its start and end, and result.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from toolkit.common import json_files
from toolkit.common.files import write_output
from toolkit.common.json_files import sha256
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.distributed.environment import device_name
from toolkit.models.encoder import Encoder
from toolkit.nn.ops.relative_attention import kernel_runs
from toolkit.optim.schedules import WarmupConfig, describe_misfit
from toolkit.reporting.console import Console
from toolkit.reporting.tables import Table
from toolkit.training.cuda_graphs import GraphedAccumulator
from toolkit.training.data import LoadedSplit, TrainingData
from toolkit.training.step import Metrics
from toolkit.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The contents of `result.json`."""

    updates: int
    words: int | None = None
    """Words seen, as `wc -w` counts them; None if they are not counted."""
    epochs: int
    """Completed epochs."""
    seconds: float
    """Training time without validation and saving, including that before resuming."""
    train: Metrics
    """The latest training metrics."""
    valid: Mapping[str, Metrics]
    """Split -> metrics of its latest validation."""
    best: Mapping[str, Any] | None
    """metric, value and update of the best validation, and its metrics by split as `valid`."""
    parameters: int
    """Number of trained parameters."""
    frozen_parameters: int = 0
    """Number of parameters that are not trained."""
    flops_per_token: float | None = None
    """FLOPs of an update per token of a batch; None if nothing was left to train."""
    signal: int | None = None
    """Number of the signal that stopped the run early; None if none did."""
    out_of_time: bool = False
    """Whether `stop_time_hours` ended the run early."""

    @property
    def exit_code(self) -> int:
        """0, or 128 + the signal's number."""
        return 128 + self.signal if self.signal else 0

    def write(self, folder: Path, config: RunConfig) -> None:
        """Write it next to the checkpoints, atomically."""
        run = to_dict(config)
        values = {**asdict(self), "config": run, "config_digest": config_digest(run)}
        write_output(folder / "result.json", json_files.dumps(values, indent=1) + "\n")


def config_digest(run: Mapping[str, object]) -> str:
    """SHA-256 of a config, which identifies a run."""
    return sha256(json_files.dumps(run))


def start_rows(
    config: RunConfig,
    trainer: Trainer,
    train: TrainingData,
    valid: Sequence[LoadedSplit],
    total: int,
) -> dict[str, str]:
    """Model, data, machine and length of the run."""
    world, c = trainer.world, config.data
    remarks = {split.name: split.examples.remark for split in valid}
    examples = [train.description, *(f"{name}: {text}" for name, text in remarks.items() if text)]
    limits = {"tokens": c.max_tokens, "examples": c.batch_size}
    limit = " and ".join(f"{n} {what}" for what, n in limits.items() if n) or "32 examples"
    decay = config.training.ema_decay
    averaged = f", weights averaged with decay {decay:g}" if decay else ""
    ranks = f" x {world.size} ranks" if world.size > 1 else ""
    factors = f" x {trainer.update_freq}{ranks}" if ranks or trainer.update_freq > 1 else ""
    seen, of_epoch = trainer.progress.words_seen, train.words(trainer.progress.epoch)
    words = ""
    if seen is not None and of_epoch is not None:
        words = f", {seen:,} words seen; {of_epoch[-1]:,} an epoch"
    misfit, schedule = describe_misfit(trainer.schedule, total), config.lr_scheduler.config
    warmup = schedule.warmup(total) if isinstance(schedule, WarmupConfig) else 0
    warm = f" after {warmup:,} updates of warm-up" if warmup else ""
    changing = [f"{path} {schedule.text}" for path, schedule in config.schedules.items()]
    on_gpu = world.device.type == "cuda"
    return {
        "architecture": f"{config.arch.name}, {describe_parameters(trainer.learner)}",
        "task": f"{config.task.name}, {config.criterion.name}",
        "data": ", ".join(c.dirs),
        "examples": "; ".join(examples),
        **({"remedy": advice} if (advice := train.examples.advice) else {}),
        "batch": f"{'exactly' if c.fill_batches else 'at most'} {limit}{factors}",
        "optimizer": f"{config.optimizer.name}, lr {config.optimizer.config.lr:g}, "
        f"{config.lr_scheduler.name}{warm}{averaged}",
        **({"caution": misfit} if misfit else {}),
        **({"schedules": ", ".join(changing)} if changing else {}),
        "updates": f"{trainer.progress.update:,} of {total:,} done{words}",
        "machine": f"{device_name(world.device)}, {trainer.precision.name}",
        **({"execution": describe_execution(config, trainer)} if on_gpu else {}),
        "saved to": "nowhere" if config.checkpoint.no_save else config.checkpoint.save_dir,
    }


def describe_execution(config: RunConfig, trainer: Trainer) -> str:
    """How a GPU computes the updates."""
    encoder, device = trainer.learner.encoder, trainer.world.device
    attention = "attention in torch's operations, with padding"
    if (
        isinstance(encoder, Encoder)
        and encoder.uses_packing
        and kernel_runs(device, encoder.token_embedding.weight.dtype, encoder.head_width)
    ):
        attention = f"attention in one kernel, {'without' if encoder.packs else 'with'} padding"
    graphs = "no CUDA graphs"
    if isinstance(trainer.accumulator, GraphedAccumulator):
        filled = trainer.accumulator.filled
        graphs = "one CUDA graph" if filled else "CUDA graphs of batch shapes that repeat"
    compiled = "compiled" if config.training.compile else "not compiled"
    return f"{attention}, {graphs}, {compiled}"


def describe_parameters(learner: nn.Module) -> str:
    """The number of parameters, and of trained ones if some are frozen."""
    trained, frozen = (count_parameters(learner, trained=it) for it in (True, False))
    total = f"{trained + frozen:,} parameters"
    return f"{total}, {trained:,} of them trained" if frozen else total


def count_parameters(learner: nn.Module, *, trained: bool) -> int:
    """The number of parameters that are trained, or of those that are frozen."""
    return sum(p.numel() for p in learner.parameters() if p.requires_grad == trained)


def print_end(result: RunResult, console: Console) -> None:
    """Print the latest metrics of every validation split, and the best checkpoint."""
    if result.valid:
        print_metrics({"subset": result.valid}, console)
    if result.best:
        best = result.best
        console.print(
            f"best {best['metric']} {best['value']:.4f} at update {best['update']}", highlight=False
        )


def print_metrics(tables: Mapping[str, Mapping[str, Metrics]], console: Console) -> None:
    """Print a table of metrics for each kind of rows."""
    for kind, rows in tables.items():
        columns = list(dict.fromkeys(name for metrics in rows.values() for name in metrics))
        cells = [[row, *(metrics.get(c) for c in columns)] for row, metrics in rows.items()]
        Table(columns=(kind, *columns), rows=cells).print(console)
