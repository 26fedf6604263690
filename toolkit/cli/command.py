"""What every command does around its work: answer questions, and tell a user's mistakes."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command
from toolkit.config.early_exit import handle_info_flags
from toolkit.config.load import LoadedConfig, load

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130


def execute(
    command: Command, act: Callable[[LoadedConfig], int | None], argv: Sequence[str] | None
) -> int:
    """The exit code: what `act` returns, 2 for a mistake told in one line, 130 for Ctrl-C.

    Any other exception is our bug, or a plugin's, and keeps its traceback.
    """
    words = sys.argv[1:] if argv is None else argv
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    code = 0
    try:
        text = handle_info_flags(words, command)
        if text is None:
            code = act(load(words, command)) or 0
        else:
            print(text)
        sys.stdout.flush()
    except ToolkitError as error:
        print(f"{command.name}: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, head perhaps, has seen enough
        if not is_reader_gone(sys.stdout.fileno()):
            raise  # it was another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def is_reader_gone(descriptor: int) -> bool:
    """Whether nobody reads any more what is written there."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
