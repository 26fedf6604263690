"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import call, execute
from toolkit.config.commands.preprocess import PREPROCESS as COMMAND


def main(argv: Sequence[str] | None = None) -> int:
    """Run toolkit-preprocess; returns the exit code."""
    return execute(COMMAND, call("toolkit.data.preprocess:preprocess"), argv)


if __name__ == "__main__":
    sys.exit(main())
