"""toolkit-train: learn from data folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.load import Loaded
from toolkit.config.run import RunConfig
from toolkit.config.sweep import SweepConfig

COMMAND = Command(
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


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)

    def train(loaded: Loaded) -> None:
        several: SweepConfig = loaded.extra["sweep"]
        if several.asked:
            from toolkit.training.sweep import sweep

            sweep(words, several)
        else:
            from toolkit.training.run import run

            run(loaded.config)

    return execute(COMMAND, train, words)


if __name__ == "__main__":
    sys.exit(main())
