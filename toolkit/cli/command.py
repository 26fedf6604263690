"""What every command does around its work: answer questions, and tell a user's mistakes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.answer import answer
from toolkit.config.command import Command
from toolkit.config.load import Loaded, load

MISTAKE, INTERRUPTED = 2, 130


def execute(command: Command, act: Callable[[Loaded], object], argv: Sequence[str] | None) -> int:
    """Exit code of a command: 0, 2 for a user's mistake told in one line, 130 for Ctrl-C.

    Any other exception is our bug, or a plugin's, and keeps its traceback.
    """
    words = sys.argv[1:] if argv is None else argv
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        text = answer(words, command)
        if text is None:
            act(load(words, command))
        else:
            print(text)
        sys.stdout.flush()
    except ToolkitError as error:
        print(f"{command.name}: {' '.join(str(error).split())}", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, head perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
