"""The training command's options: a run's sections and components, and a set of runs."""

from __future__ import annotations

from toolkit.config.command import Command
from toolkit.config.run import RunConfig
from toolkit.config.sweep import SweepConfig

TRAIN = Command(
    name="toolkit-train",
    summary="Train an architecture on a task with the folders that toolkit-preprocess wrote. "
    "Checkpoints, a log and the result go to the save folder; a run whose folder already holds "
    "checkpoints goes on from the last one. With --seeds or --grid it trains a set of runs.",
    example="toolkit-train data --arch composite_bert_small --task mlm --max-update 10000 "
    "--lr 3e-4 --save-dir run",
    config=RunConfig,
    sections={"sweep": SweepConfig},
    common=(
        "data.max_tokens",
        "data.batch_size",
        "optimizer.lr",
        "lr_scheduler.warmup_updates",
        "training.max_update",
        "training.max_epoch",
        "training.update_freq",
        "training.precision",
        "training.seed",
        "checkpoint.save_dir",
        "sweep.seeds",
        "sweep.grid",
    ),
)
