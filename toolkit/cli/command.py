"""Run a command: choose its subcommand, answer info flags, report user errors."""

from __future__ import annotations

import io
import logging
import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module

from toolkit.common import system
from toolkit.common.errors import describe_error
from toolkit.config.command import Act, Command, CommandGroup
from toolkit.config.help import handle_info_flags
from toolkit.config.load import LoadedConfig, load

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130
KEPT = 150
"""Letters of a very long word that an error message keeps, at each end."""
CPU_FALLBACKS = ("PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_ENABLE_XPU_FALLBACK")
"""Variables with which torch runs on the CPU, with a warning, what Apple's or Intel's GPU lacks."""


def program(command: Command | CommandGroup, module: str) -> Callable[..., int]:
    """The function `main` of a command's module, called at once by `python -m MODULE`."""
    main = partial(execute, command)
    if module == "__main__":
        sys.exit(main())
    return main


def execute(command: Command | CommandGroup, argv: Sequence[str] | None = None) -> int:
    """The exit code: that of the command, 2 for a mistake of the user or a disk, 130 for Ctrl-C.

    Any other exception is a bug of ours, or of a plugin, and keeps its traceback.
    """
    if system.is_launched():
        system.stop_with_launcher()
    open_closed_streams()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    for variable in CPU_FALLBACKS:  # torch reads them when it is imported
        os.environ.setdefault(variable, "1")
    words = list(sys.argv[1:] if argv is None else argv)
    return report_errors(command.name, lambda: run(command, words))


def report_errors(name: str, act: Callable[[], int]) -> int:
    """The exit code of `act`; its errors become one line on stderr."""
    try:
        code = act()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        gone = isinstance(error, ConnectionError) and is_reader_gone()
        lost = discard_lost_output() if isinstance(error, OSError) and not error.filename else ""
        if gone:
            return 0  # the reader, such as head, has closed its end
        if not (line := describe_error(error, lost)):
            raise
        return fail(name, line)


def fail(name: str, message: str) -> int:
    """Print an error as one line, if stderr can be written; returns the exit code.

    Very long words are shortened.
    """
    words = (
        word if len(word) <= 2 * KEPT else f"{word[:KEPT]}...{word[-KEPT:]}"
        for word in message.split()
    )
    line = f"{name}: {' '.join(words)}"
    if os.environ.get("LOCAL_RANK") != "0":  # the first rank may report the same error
        system.wait_to_be_ended()
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
    system.record_error(line)
    discard_lost_output()
    return EXIT_USER_ERROR


def run(command: Command | CommandGroup, argv: Sequence[str]) -> int:
    """Carry out a command, or answer an info flag."""
    " ".join(argv).encode()  # paths are stored in files that are UTF-8
    prepared = prepare(command, argv)
    if isinstance(prepared, str):
        print(prepared)
        return 0
    act, loaded = prepared
    if isinstance(act, str):
        module, _, name = act.partition(":")
        act = getattr(import_module(module), name)
    code = act(loaded if loaded.extra else loaded.config)
    return code if isinstance(code, int) else 0


def prepare(command: Command | CommandGroup, argv: Sequence[str]) -> tuple[Act, LoadedConfig] | str:
    """The function to call with which configs, or the text that an info flag asks for."""
    if isinstance(command, CommandGroup):
        chosen, argv = command.choose(argv)
        return prepare(chosen, argv) if chosen else command.answer(argv)
    command = command.variant(argv) if command.variant else command
    text = handle_info_flags(argv, command)
    return (command.act, load(argv, command)) if text is None else text


OUTPUT_STREAMS = (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
"""Name and flags of the replacement of a closed stream. Output must not be lost in silence, so
standard output is opened for reading: writing to it fails."""


def open_closed_streams() -> None:
    """Replace closed streams, whose numbers the next files that are opened would get.

    Text that cannot be encoded, such as a file name that is not UTF-8, is printed escaped.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    for name, flags in OUTPUT_STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_lost_output() -> str:
    """Keep the interpreter from writing, when it exits, what cannot be written.

    Returns the name of the stream that cannot be written; empty if both can.
    """
    lost = ""
    for stream, name in ((sys.stderr, "standard error"), (sys.stdout, "standard output")):
        try:
            stream.flush()
        except OSError:
            lost = name
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return lost


def is_reader_gone() -> bool:
    """Whether the other end of standard output or standard error is closed."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
