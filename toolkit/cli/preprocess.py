"""toolkit-preprocess: from text files to a folder of binarized, checksummed columns."""

from toolkit.cli.command import program
from toolkit.config.commands.preprocess import PREPROCESS as COMMAND

main = program(COMMAND, __name__)
