"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.commands.preprocess import PREPROCESS as COMMAND
from toolkit.config.load import LoadedConfig


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, preprocess, argv)


def preprocess(loaded: LoadedConfig) -> None:
    from toolkit.data.preprocess import preprocess

    preprocess(loaded.config)


if __name__ == "__main__":
    sys.exit(main())
