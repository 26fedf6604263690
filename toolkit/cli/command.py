"""Run a command: choose its subcommand, answer info flags, report user errors."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

from toolkit.cli.standard_streams import (
    discard_lost_output,
    is_reader_gone,
    open_closed_streams,
)
from toolkit.common import launcher
from toolkit.common.errors import ToolkitError, describe_os_error, first_line, is_out_of_memory
from toolkit.config.command import Command, CommandGroup
from toolkit.config.help import handle_info_flags
from toolkit.config.load import LoadedConfig, load

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130
KEPT = 150
"""Letters of a very long word that an error message keeps, at each end."""
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
    """The exit code: that of `act`, 2 for a mistake of the user or of a disk, 130 for Ctrl-C.

    Any other exception is a bug of ours, or of a plugin, and keeps its traceback.
    """
    if launcher.is_launched():
        launcher.stop_with_launcher()
    open_closed_streams()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    for variable in CPU_FALLBACKS:  # torch reads them when it is imported
        os.environ.setdefault(variable, "1")
    return report_errors(
        command.name, lambda: run(command, act, sys.argv[1:] if argv is None else argv)
    )


def report_errors(name: str, act: Callable[[], int]) -> int:
    """The exit code of `act`; its errors become one line on stderr."""
    try:
        code = act()
        sys.stdout.flush()
        return code
    except ToolkitError as error:
        return fail(name, str(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        hint = "Use smaller batches, a smaller model or smaller files."
        return fail(name, f"out of memory: {first_line(error)}. {hint}")
    except ConnectionError:  # the reader, such as head, has closed its end
        if not any(is_reader_gone(stream.fileno()) for stream in (sys.stdout, sys.stderr)):
            raise  # it was another pipe
        discard_lost_output()
        return 0
    except OSError as error:
        lost = "" if error.filename else discard_lost_output()
        return fail(name, f"{describe_os_error(error, lost)}.")


def fail(name: str, message: str) -> int:
    """Print an error as one line, if stderr can be written; returns the exit code."""
    line = f"{name}: {to_line(message)}"
    launcher.let_first_rank_report()
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
    launcher.record_error(line)
    discard_lost_output()
    return EXIT_USER_ERROR


def run(command: Command | CommandGroup, act: Act, argv: Sequence[str]) -> int:
    """Carry out a command, or answer an info flag."""
    check_encoding(argv)
    prepared = prepare(command, argv)
    if isinstance(prepared, LoadedConfig):
        return act(prepared) or 0
    print(prepared)
    return 0


def to_line(message: str) -> str:
    """The message as one line, with very long words shortened."""
    words = (
        word if len(word) <= 2 * KEPT else f"{word[:KEPT]}...{word[-KEPT:]}"
        for word in message.split()
    )
    return " ".join(words)


def prepare(command: Command | CommandGroup, argv: Sequence[str]) -> LoadedConfig | str:
    """The configs to act on, or the text that an info flag asks for."""
    if isinstance(command, CommandGroup):
        chosen, argv = command.choose(argv)
        return prepare(chosen, argv) if chosen else command.answer(argv)
    text = handle_info_flags(argv, command)
    return load(argv, command) if text is None else text


def check_encoding(argv: Sequence[str]) -> None:
    """Raise if an argument is not UTF-8 text: paths are stored in files that are."""
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ToolkitError(f"{word!r} is not UTF-8. Rename the file, or retype it.") from None
        if "\0" in word:
            raise ToolkitError(f"{word!r} has a NUL character. Remove it.")
