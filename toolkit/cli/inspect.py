"""toolkit-inspect: contents, integrity and cost of data folders and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cli.command import program
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import DEFAULT_COMPONENTS, Command
from toolkit.config.commands.checkpoints import FlopsConfig, InspectConfig
from toolkit.config.sections import RunConfig
from toolkit.config.values import read_words


def choose_command(argv: Sequence[str]) -> Command:
    """COUNT if options describe a run, with --arch or in a file; else COMMAND."""
    names = {flag.name for flag in read_words(argv).flags}
    has_run = any(name.startswith("arch") for name in names) or {"flops", "config"} <= names
    return COUNT if has_run else COMMAND


COMMAND = Command(
    name="toolkit-inspect",
    summary="Show the contents of data folders and checkpoints. --verify reads all of it and "
    "compares it with its checksums. --flops counts the operations of a checkpoint's run, or of an "
    "architecture named with --arch. --word-order measures how much checkpoints depend on the "
    "order of words.",
    example="toolkit-inspect data run/checkpoint_best --verify",
    config=InspectConfig,
    act="toolkit.commands.inspect:inspect",
    variant=choose_command,
    common=("verify", "examples", "flops", "word_order"),
)
COUNT = Command(
    name="toolkit-inspect",
    summary="Count the floating-point operations of each layer, of an update and of a run that is "
    "described by the options of toolkit-train. Nothing is trained.",
    example="toolkit-inspect --flops --arch bert_small --batch-size 128 --max-update 1000000",
    config=RunConfig,
    act="toolkit.analysis.flops:print_planned_flops",
    components=COMPONENTS,
    sections={"inspect": FlopsConfig},
    common=("data.batch_size", "data.max_tokens", "training.update_freq", "training.max_update"),
    defaults={**DEFAULT_COMPONENTS, "task": "mlm"},
)
main = program(COMMAND, __name__)
