"""toolkit-train: train a model on data folders."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import SavedRun
from toolkit.config.commands.train import TRAIN, SweepConfig
from toolkit.config.load import LoadedConfig


def find_saved_run(save_dir: str, restore_file: str) -> SavedRun | None:
    """The run to resume; --help does not need the import."""
    from toolkit.checkpoints import save_folder

    return save_folder.find_saved_run(save_dir, restore_file)


COMMAND = dataclasses.replace(TRAIN, find_saved_run=find_saved_run)
"""Runs of a sweep are configured by TRAIN: all options come from the sweep's command line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run toolkit-train; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return execute(COMMAND, lambda loaded: train(words, loaded), words)


def train(argv: Sequence[str], loaded: LoadedConfig) -> int:
    """Train one run; or with --seeds or --grid a sweep, whose runs all get these words."""
    config: SweepConfig = loaded.extra["sweep"]
    if config.is_sweep:
        from toolkit.sweep.sweep import run_sweep

        return run_sweep(argv, config)
    from toolkit.training.run import run

    return run(loaded.config, command=shlex.join([COMMAND.name, *argv])).exit_code


if __name__ == "__main__":
    sys.exit(main())
