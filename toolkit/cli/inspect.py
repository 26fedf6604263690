"""toolkit-inspect: what a data folder or a checkpoint holds, whether it is whole, what it costs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.command import execute
from toolkit.common.errors import ToolkitError
from toolkit.config.command import DEFAULT_NAMES, Command
from toolkit.config.commands.inspect import CountConfig, InspectConfig
from toolkit.config.help import columns
from toolkit.config.load import Loaded
from toolkit.config.run import RunConfig

if TYPE_CHECKING:
    from toolkit.reporting.json_output import Output

COMMAND = Command(
    name="toolkit-inspect",
    summary="Show what data folders and checkpoints hold. With --verify, read all of each and "
    "compare it with its checksums. With --flops, count what a run of a checkpoint costs, or of an "
    "architecture that --arch names.",
    example="toolkit-inspect data run/checkpoint_best --verify",
    config=InspectConfig,
    common=("verify", "examples", "flops"),
)
COUNT = Command(
    name="toolkit-inspect",
    summary="Count the floating-point operations of each layer, of an update and of a run, from "
    "the options that toolkit-train would be given; nothing is trained.",
    example="toolkit-inspect --flops --arch bert_small --batch-size 128 --max-update 1000000",
    config=RunConfig,
    sections={"inspect": CountConfig},
    common=("data.batch_size", "data.max_tokens", "training.update_freq", "training.max_update"),
    defaults={**DEFAULT_NAMES, "task": "mlm"},
)


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    command = chosen(words)
    return execute(command, count if command is COUNT else inspect, words)


def chosen(argv: Sequence[str]) -> Command:
    """What is there is inspected; a run that is only described, by --arch or a file, is counted."""
    names = {word.partition("=")[0] for word in argv}
    described = any(name.startswith("--arch") for name in names) or {"--flops", "--config"} <= names
    return COUNT if described else COMMAND


def count(loaded: Loaded) -> None:
    """What a run would cost, from its options alone."""
    from toolkit.analysis.flops_report import of_run, show
    from toolkit.reporting.json_output import Output

    config: CountConfig = loaded.extra["inspect"]
    with Output(config.json) as output:
        show(of_run(loaded.config, config), output)


def inspect(loaded: Loaded) -> None:
    """Facts on each path, one below the other."""
    from toolkit.reporting.json_output import Output

    with Output(loaded.config.json) as output:
        for place, path in enumerate(loaded.config.paths):
            if place:
                print(file=output.people)
            print("\n\n".join(shown(path, loaded.config, output)), file=output.people)
            if loaded.config.flops:
                print(file=output.people)
                show_flops(path, output)


def show_flops(path: str, output: Output) -> None:
    from toolkit.analysis.flops_report import of_checkpoint, show
    from toolkit.commands.describe_checkpoint import checkpoint_at

    checkpoint = checkpoint_at(Path(path))
    if not checkpoint:
        raise ToolkitError(
            f"toolkit-inspect --flops must be given checkpoints, but {path} is none. Leave it out, "
            f"or name an architecture by --arch: {path} then says its vocabulary."
        )
    show(of_checkpoint(checkpoint), output)


def shown(path: str, config: InspectConfig, output: Output) -> list[str]:
    """Paragraphs on a checkpoint where there is one, else on a data folder; and its figures."""
    from toolkit.commands.describe_checkpoint import checkpoint_at, figures
    from toolkit.commands.describe_checkpoint import describe as describe_checkpoint
    from toolkit.commands.describe_data import describe as describe_data

    for part in path.split(":"):
        if not Path(part).exists():
            raise ToolkitError(
                f"toolkit-inspect must be given something there, but {part} is not. Check the path."
            )
    checkpoint = checkpoint_at(Path(path))
    if checkpoint:
        facts = describe_checkpoint(checkpoint, verify=config.verify)
        output.write("checkpoint", {**figures(checkpoint), "verified": config.verify})
        return [f"{path}\n{columns(facts.items())}"]
    found = describe_data(path, verify=config.verify, examples=config.examples)
    for row in found.figures:
        output.write("column", {**row, "verified": config.verify})
    paragraphs = [f"{path}\n{columns(found.facts.items())}", found.splits]
    return [*paragraphs, *([columns(found.items.items())] if found.items else [])]


if __name__ == "__main__":
    sys.exit(main())
