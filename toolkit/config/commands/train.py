"""Options of toolkit-train: the sections and components of a run, and sweeps over runs."""

from __future__ import annotations

from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command
from toolkit.config.commands.sweep import SweepConfig
from toolkit.config.run import RunConfig

TRAIN = Command(
    name="toolkit-train",
    summary="Train an architecture on a task with the data folders that toolkit-preprocess wrote. "
    "Checkpoints, a log and the result go to the save folder; if it already holds checkpoints, the "
    "run resumes from the latest. --seeds and --grid train several runs and compare them.",
    example="toolkit-train data --arch composite_bert_small --task mlm --max-update 10000 "
    "--lr 3e-4 --save-dir run",
    config=RunConfig,
    components=COMPONENTS,
    sections={"sweep": SweepConfig},
    misplaced_paths={
        "raw": "Run toolkit-preprocess --trainpref {path}{options} --destdir data, then "
        "toolkit-train data.",
        "checkpoint": "Write --finetune-from {path}, or --restore-file {path} to resume.",
    },
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
