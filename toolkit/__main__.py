"""`python -m toolkit`: the command `toolkit`."""

import sys

from toolkit.cli.toolkit import main

if __name__ == "__main__":
    sys.exit(main())
