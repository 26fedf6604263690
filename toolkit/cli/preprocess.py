"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.load import LoadedConfig

COMMAND = Command(
    name="toolkit-preprocess",
    summary="Turn text files into a data folder: learn a vocabulary from them or take a given one, "
    "and write the tokens of each split as memory-mapped columns with checksums.",
    example="toolkit-preprocess --trainpref a.txt,b.txt.gz --validpref held-out.txt "
    "--destdir data --vocab-size 8000",
    config=PreprocessConfig,
    common=("trainpref", "validpref", "testpref", "destdir", "format", "vocab_size", "workers"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, preprocess, argv)


def preprocess(loaded: LoadedConfig) -> None:
    from toolkit.data.preprocess import preprocess

    preprocess(loaded.config)


if __name__ == "__main__":
    sys.exit(main())
