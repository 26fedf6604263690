"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

import sys
from functools import partial

from toolkit.cli.command import call, execute
from toolkit.config.commands.preprocess import PREPROCESS as COMMAND

main = partial(execute, COMMAND, call("toolkit.data.preprocess:preprocess"))


if __name__ == "__main__":
    sys.exit(main())
