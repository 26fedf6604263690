"""toolkit-inspect: what a data folder or a checkpoint holds, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    common=("verify",),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, inspect, argv)


def inspect(loaded: Loaded) -> None:
    for path in loaded.config.paths:
        facts = described(Path(path), verify=loaded.config.verify)
        print(path)
        print(columns([(name, str(fact)) for name, fact in facts.items()]))


def described(path: Path, *, verify: bool) -> Mapping[str, Any]:
    """Rows about a checkpoint where there is one, else about a data folder."""
    from toolkit.data.inspect import describe as describe_data
    from toolkit.training import manifest
    from toolkit.training.checkpoint import describe as describe_checkpoint

    if not path.exists():
        raise ToolkitError(f"toolkit-inspect must be given something there, but {path} is not.")
    for folder in (path, path / "checkpoint_last"):
        if (folder / manifest.NAME).exists():
            return describe_checkpoint(folder, verify)
    return describe_data(path, verify)


if __name__ == "__main__":
    sys.exit(main())
