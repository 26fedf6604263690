"""Standard streams that are closed, full, or without a reader."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

OUTPUT_STREAMS = (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
"""Name and flags of the replacement of a closed stream. Output must not be lost in silence, so
standard output is opened for reading: writing to it fails."""


class ClosedInput(io.FileIO):
    """Closed standard input: reading it is an error, unlike reading an empty one."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")


def open_closed_streams() -> None:
    """Replace closed streams, whose numbers the next files that are opened would get.

    Text that cannot be encoded, such as a file name that is not UTF-8, is printed escaped.
    """
    if sys.stdin is None:
        raw = ClosedInput(os.open(os.devnull, os.O_RDONLY))
        sys.stdin = io.TextIOWrapper(io.BufferedReader(raw))
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


def is_reader_gone(descriptor: int) -> bool:
    """Whether the other end of this pipe is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
