"""Run a command: choose its subcommand, answer info flags, report user errors."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from toolkit.common.errors import ToolkitError
from toolkit.config.command import Command
from toolkit.config.command_group import CommandGroup
from toolkit.config.early_exit import handle_info_flags
from toolkit.config.load import LoadedConfig, load

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130
CPU_FALLBACKS = ("PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_ENABLE_XPU_FALLBACK")
"""Variables with which torch runs on the CPU, with a warning, what Apple's or Intel's GPU lacks."""
Act = Callable[[LoadedConfig], int | None]
"""Carries out a command; returns its exit code, or None for 0."""


def call(function: str) -> Act:
    """Call `module:function` with the command's config; imported only then, as torch is slow."""

    def act(loaded: LoadedConfig) -> None:
        module, _, name = function.partition(":")
        getattr(import_module(module), name)(loaded.config)

    return act


def execute(command: Command | CommandGroup, act: Act, argv: Sequence[str] | None) -> int:
    """The exit code: that of `act`, 2 for a user's mistake, 130 for Ctrl-C.

    Any other exception is a bug of ours, or of a plugin, and keeps its traceback.
    """
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    for variable in CPU_FALLBACKS:  # torch reads them when it is imported
        os.environ.setdefault(variable, "1")
    code = 0
    try:
        prepared = prepare(command, sys.argv[1:] if argv is None else argv)
        if isinstance(prepared, LoadedConfig):
            code = act(prepared) or 0
        else:
            print(prepared)
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
    if isinstance(command, CommandGroup):
        chosen, argv = command.choose(argv)
        return prepare(chosen, argv) if chosen else command.answer(argv)
    text = handle_info_flags(argv, command)
    return load(argv, command) if text is None else text


def is_reader_gone(descriptor: int) -> bool:
    """Whether the other end of this pipe is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
