"""toolkit-train: train a model on data folders."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.commands.sweep import SweepConfig
from toolkit.config.commands.train import TRAIN as COMMAND
from toolkit.config.load import LoadedConfig


def main(argv: Sequence[str] | None = None) -> int:
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
