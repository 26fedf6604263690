"""toolkit-train: train a model on data folders."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence

from toolkit.cli.command import program
from toolkit.config.command import Command
from toolkit.config.commands.train import SUITE_TRAIN, TRAIN, SweepConfig
from toolkit.config.load import LoadedConfig
from toolkit.config.values import read_words


def train(loaded: LoadedConfig) -> int:
    """Train one run; or with --seeds, --grid or --suite several, which all get these words."""
    config: SweepConfig = loaded.extra["sweep"]
    if config.suite:
        from toolkit.sweep.suite import run_suite

        return run_suite(loaded.argv, config)
    if config.seeds or config.grid:
        from toolkit.sweep.sweep import run_sweep

        return run_sweep(loaded.argv, config)
    from toolkit.training.run import run

    return run(loaded.config, command=shlex.join([COMMAND.name, *loaded.argv])).exit_code


def choose_command(argv: Sequence[str]) -> Command:
    """With --suite, the task has a default."""
    has_suite = any(flag.name in ("suite", "sweep.suite") for flag in read_words(argv).flags)
    return dataclasses.replace(SUITE_TRAIN, act=train) if has_suite else COMMAND


COMMAND = dataclasses.replace(
    TRAIN,
    act=train,
    find_saved_run="toolkit.checkpoints.save_folder:find_saved_run",
    variant=choose_command,
)
"""Runs of a sweep are configured by TRAIN: all options come from the sweep's command line."""
main = program(COMMAND, __name__)
