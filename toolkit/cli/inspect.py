"""toolkit-inspect: contents, integrity and cost of data folders and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import call, execute
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import DEFAULT_COMPONENTS, Command
from toolkit.config.commands.checkpoints import FlopsConfig, InspectConfig
from toolkit.config.sections import RunConfig

COMMAND = Command(
    name="toolkit-inspect",
    summary="Show the contents of data folders and checkpoints. --verify reads all of it and "
    "compares it with its checksums. --flops counts the operations of a checkpoint's run, or of an "
    "architecture named with --arch. --word-order measures how much checkpoints depend on the "
    "order of words.",
    example="toolkit-inspect data run/checkpoint_best --verify",
    config=InspectConfig,
    common=("verify", "examples", "flops", "word_order"),
)
COUNT = Command(
    name="toolkit-inspect",
    summary="Count the floating-point operations of each layer, of an update and of a run that is "
    "described by the options of toolkit-train. Nothing is trained.",
    example="toolkit-inspect --flops --arch bert_small --batch-size 128 --max-update 1000000",
    config=RunConfig,
    components=COMPONENTS,
    sections={"inspect": FlopsConfig},
    common=("data.batch_size", "data.max_tokens", "training.update_freq", "training.max_update"),
    defaults={**DEFAULT_COMPONENTS, "task": "mlm"},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run toolkit-inspect; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = choose_command(words)
    function = "count_flops" if command is COUNT else "inspect"
    return execute(command, call(f"toolkit.commands.inspect:{function}"), words)


def choose_command(argv: Sequence[str]) -> Command:
    """COUNT if options describe a run, with --arch or in a file; else COMMAND."""
    names = {word.partition("=")[0] for word in argv}
    has_run = any(name.startswith("--arch") for name in names) or {"--flops", "--config"} <= names
    return COUNT if has_run else COMMAND


if __name__ == "__main__":
    sys.exit(main())
