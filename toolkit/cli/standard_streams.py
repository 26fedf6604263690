"""Standard streams that are closed, full, or without a reader."""

from __future__ import annotations

import io
import os
import select
import sys

STREAMS = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
"""Name, mode and flags of the replacement of a closed stream. Output must not be lost in silence,
so standard output is opened for reading: writing to it fails."""


def open_closed_streams() -> None:
    """Replace closed streams, whose numbers the next files that are opened would get.

    Text that cannot be encoded, such as a file name that is not UTF-8, is printed escaped.
    """
    for name, mode, flags in STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_lost_output() -> None:
    """Keep the interpreter from writing, when it exits, what cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_reader_gone(descriptor: int) -> bool:
    """Whether the other end of this pipe is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
