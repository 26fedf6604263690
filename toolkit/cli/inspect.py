"""toolkit-inspect: contents, integrity and cost of data folders and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.command import execute
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import DEFAULT_COMPONENTS, Command, format_columns
from toolkit.config.commands.checkpoints import FlopsConfig, InspectConfig
from toolkit.config.load import LoadedConfig
from toolkit.config.sections import RunConfig

if TYPE_CHECKING:
    from toolkit.reporting.json_output import Output

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
    return execute(command, count if command is COUNT else inspect, words)


def choose_command(argv: Sequence[str]) -> Command:
    """COUNT if options describe a run, with --arch or in a file; else COMMAND."""
    names = {word.partition("=")[0] for word in argv}
    has_run = any(name.startswith("--arch") for name in names) or {"--flops", "--config"} <= names
    return COUNT if has_run else COMMAND


def count(loaded: LoadedConfig) -> None:
    """Print the cost of a run from its options alone."""
    from toolkit.analysis.flops import print_flops, run_flops
    from toolkit.reporting.json_output import Output

    config: FlopsConfig = loaded.extra["inspect"]
    with Output(config.json) as output:
        print_flops(run_flops(loaded.config, config), output)


def inspect(loaded: LoadedConfig) -> None:
    """Print facts about each path, or what checkpoints lose without the order of words."""
    from toolkit.reporting.json_output import Output

    c: InspectConfig = loaded.config
    with Output(c.json) as output:
        if c.word_order:
            from toolkit.commands.word_order import show_word_order

            show_word_order(c, output)
        if not c.word_order or c.verify or c.examples or c.flops:
            describe_paths(c, output)


def describe_paths(config: InspectConfig, output: Output) -> None:
    """Print facts about each path, and what differs between checkpoints."""
    for index, path in enumerate(config.paths):
        if index:
            print(file=output.text_stream)
        print("\n\n".join(describe(path, config, output)), file=output.text_stream)
        if config.flops:
            print(file=output.text_stream)
            show_flops(path, output)
    show_differences(config.paths, output)


def show_differences(paths: Sequence[str], output: Output) -> None:
    """Print what differs between the runs, if two or more of the paths are checkpoints."""
    from toolkit.commands.describe_checkpoint import compare_runs, find_checkpoint

    checkpoints = {path: found for path in paths if (found := find_checkpoint(Path(path)))}
    if len(checkpoints) < 2:
        return
    differences, table = compare_runs(checkpoints)
    for name, values in differences.items():
        output.write("difference", {"name": name, "values": values})
    text = table.text() if differences else "The options of these runs do not differ.\n"
    print(f"\n{text}", end="", file=output.text_stream)


def show_flops(path: str, output: Output) -> None:
    """Print the FLOPs of a checkpoint's run."""
    from toolkit.analysis.flops import checkpoint_flops, print_flops
    from toolkit.commands.describe_checkpoint import find_checkpoint

    checkpoint = find_checkpoint(Path(path))
    if not checkpoint:
        raise ToolkitError(
            f"toolkit-inspect --flops needs a checkpoint, but {path} is none. With --arch NAME, a "
            f"data folder gives the vocabulary size."
        )
    print_flops(checkpoint_flops(checkpoint), output)


def describe(path: str, config: InspectConfig, output: Output) -> list[str]:
    """Paragraphs about a checkpoint, else about a data folder; write their records."""
    from toolkit.commands.describe_checkpoint import (
        checkpoint_record,
        describe_checkpoint,
        find_checkpoint,
    )
    from toolkit.commands.describe_data import describe_data

    for part in path.split(":"):
        if not Path(part).exists():
            raise ToolkitError(f"No such file or directory: {part}.")
    checkpoint = find_checkpoint(Path(path))
    if checkpoint:
        facts = describe_checkpoint(checkpoint, verify=config.verify)
        output.write("checkpoint", {**checkpoint_record(checkpoint), "verified": config.verify})
        return [f"{path}\n{format_columns(facts.items())}"]
    data = describe_data(path, verify=config.verify, examples=config.examples)
    for row in data.records:
        output.write("column", {**row, "verified": config.verify})
    paragraphs = [f"{path}\n{format_columns(data.facts.items())}", data.splits]
    return [*paragraphs, *([format_columns(data.items.items())] if data.items else [])]


if __name__ == "__main__":
    sys.exit(main())
