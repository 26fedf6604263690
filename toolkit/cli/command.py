"""Around every command: the choice of a subcommand, info flags, and reports of user errors."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command
from toolkit.config.command_group import CommandGroup
from toolkit.config.early_exit import handle_info_flags
from toolkit.config.load import LoadedConfig, load

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130


def execute(
    command: Command | CommandGroup,
    act: Callable[[LoadedConfig], int | None],
    argv: Sequence[str] | None,
) -> int:
    """The exit code: what `act` returns, 2 for a user's mistake, 130 for Ctrl-C.

    Any other exception is our bug, or a plugin's, and keeps its traceback.
    """
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    code = 0
    try:
        found = prepare(command, sys.argv[1:] if argv is None else argv)
        if isinstance(found, LoadedConfig):
            code = act(found) or 0
        else:
            print(found)
        sys.stdout.flush()
    except ToolkitError as error:
        print(f"{command.name}: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has closed its end
        if not is_reader_gone(sys.stdout.fileno()):
            raise  # it was another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def prepare(command: Command | CommandGroup, argv: Sequence[str]) -> LoadedConfig | str:
    """The configs to act on, or the text that an info flag asks for."""
    chosen: Command | None
    if isinstance(command, CommandGroup):
        chosen, argv = command.choose(argv)
        if chosen is None:
            return command.answer(argv)
    else:
        chosen = command
    text = handle_info_flags(argv, chosen)
    return load(argv, chosen) if text is None else text


def is_reader_gone(descriptor: int) -> bool:
    """Whether nobody reads any more what is written there."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
