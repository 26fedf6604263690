"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

import sys
from functools import partial

from toolkit.cli.command import execute
from toolkit.config.commands.preprocess import PREPROCESS as COMMAND

main = partial(execute, COMMAND)


if __name__ == "__main__":
    sys.exit(main())
