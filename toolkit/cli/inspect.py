"""toolkit-inspect: what a data folder or a checkpoint holds, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from toolkit.cli.command import execute
from toolkit.common.errors import ToolkitError
from toolkit.config.columns import columns
from toolkit.config.command import Command
from toolkit.config.inspect import InspectConfig
from toolkit.config.load import Loaded

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
    for place, path in enumerate(loaded.config.paths):
        if place:
            print()
        show(path, loaded.config)


def show(path: str, config: InspectConfig) -> None:
    """A checkpoint where there is one, else a data folder."""
    from toolkit.data.inspect import describe as describe_data
    from toolkit.training.inspect import checkpoint_at
    from toolkit.training.inspect import describe as describe_checkpoint

    for part in path.split(":"):
        if not Path(part).exists():
            raise ToolkitError(f"toolkit-inspect must be given something there, but {part} is not.")
    checkpoint = checkpoint_at(Path(path))
    if checkpoint:
        print(path)
        print(columns(describe_checkpoint(checkpoint, verify=config.verify).items()))
        return
    found = describe_data(path, verify=config.verify, examples=config.examples)
    print(path)
    print(columns(found.facts.items()))
    print()
    print(found.splits)
    if found.items:
        print()
        print(columns(found.items.items()))


if __name__ == "__main__":
    sys.exit(main())
