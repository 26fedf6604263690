"""toolkit-train: train a model on data folders."""

from __future__ import annotations

import dataclasses
import shlex

from toolkit.cli.command import program
from toolkit.config.command import SavedRun
from toolkit.config.commands.train import TRAIN, SweepConfig
from toolkit.config.load import LoadedConfig


def find_saved_run(save_dir: str, restore_file: str) -> SavedRun | None:
    """The run to resume; --help does not need the import."""
    from toolkit.checkpoints import save_folder

    return save_folder.find_saved_run(save_dir, restore_file)


def train(loaded: LoadedConfig) -> int:
    """Train one run; or with --seeds or --grid a sweep, whose runs all get these words."""
    config: SweepConfig = loaded.extra["sweep"]
    if config.seeds or config.grid:
        from toolkit.sweep.sweep import run_sweep

        return run_sweep(loaded.argv, config)
    from toolkit.training.run import run

    return run(loaded.config, command=shlex.join([COMMAND.name, *loaded.argv])).exit_code


COMMAND = dataclasses.replace(TRAIN, act=train, find_saved_run=find_saved_run)
"""Runs of a sweep are configured by TRAIN: all options come from the sweep's command line."""
main = program(COMMAND, __name__)
