"""toolkit-inspect: what a data folder or a checkpoint holds, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.command import execute
from toolkit.common.errors import ToolkitError
from toolkit.config.columns import columns
from toolkit.config.command import Command
from toolkit.config.inspect import InspectConfig
from toolkit.config.load import Loaded

if TYPE_CHECKING:
    from toolkit.metrics.output import Output

COMMAND = Command(
    name="toolkit-inspect",
    summary="Show what data folders and checkpoints hold. With --verify, read all of each and "
    "compare it with its checksums.",
    example="toolkit-inspect data run/checkpoint_best --verify",
    config=InspectConfig,
    common=("verify", "examples"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, inspect, argv)


def inspect(loaded: Loaded) -> None:
    """Facts on each path, one below the other."""
    from toolkit.metrics.output import Output

    with Output(loaded.config.json) as output:
        for place, path in enumerate(loaded.config.paths):
            if place:
                print(file=output.people)
            print("\n\n".join(shown(path, loaded.config, output)), file=output.people)


def shown(path: str, config: InspectConfig, output: Output) -> list[str]:
    """Paragraphs on a checkpoint where there is one, else on a data folder; and its figures."""
    from toolkit.data.inspect import describe as describe_data
    from toolkit.training.inspect import checkpoint_at, figures
    from toolkit.training.inspect import describe as describe_checkpoint

    for part in path.split(":"):
        if not Path(part).exists():
            raise ToolkitError(f"toolkit-inspect must be given something there, but {part} is not.")
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
