"""Opening of input files: regular files only, so that no command waits for a pipe or a device."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import BinaryIO

from toolkit.common.errors import ToolkitError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""Type of a file -> its name in messages."""
WRITER_SECONDS = 1.0
"""Time that a process has to open a named pipe and to write to it."""


def open_regular(path: Path, max_bytes: int | None = None, *, allow_pipe: bool = False) -> BinaryIO:
    """Open a regular file of at most `max_bytes` (None: any size).

    With `allow_pipe` it may also be a pipe, which the shell's <(command) is. OSError is left to the
    caller, who knows what the file is for.

    Raises:
        ToolkitError: if it is another kind of file, a link to nothing, or too large, or a named
            pipe without a writer.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise ToolkitError(
                f"{path} is a link to {os.readlink(path)}, which does not exist. Correct the link."
            ) from None
        raise
    kind = stat.S_IFMT(status.st_mode)
    if kind in KINDS and not (allow_pipe and kind == stat.S_IFIFO):
        raise ToolkitError(
            f"{path} must be a regular file, but is {KINDS[kind]}. Correct the path."
        )
    if max_bytes is not None and status.st_size > max_bytes:
        raise ToolkitError(
            f"{path} must have at most {max_bytes:,} bytes, but has {status.st_size:,}. "
            f"It is damaged or belongs to another program."
        )
    return _open_pipe(path) if kind == stat.S_IFIFO else path.open("rb")


def _open_pipe(path: Path) -> BinaryIO:
    """A pipe that a process writes to, or has written to."""
    file = open(path, "rb", opener=open_without_waiting)  # noqa: SIM115
    end = time.monotonic() + WRITER_SECONDS
    while path.parent.name != "fd" and not file.peek(1):
        if time.monotonic() < end:
            time.sleep(0.05)
            continue
        file.close()
        raise ToolkitError(f"{path} is a pipe that no process writes to. Start the writer first.")
    return file


def open_without_waiting(path: str | Path, flags: int) -> int:
    """An opener for files that may be pipes, of which the other end is not open."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def check_regular(path: Path) -> None:
    """Raise like `open_regular`, for files that a library opens by name."""
    open_regular(path).close()


def read_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """Content of a regular file; raises like `open_regular`."""
    with open_regular(path, max_bytes) as file:
        return file.read()
