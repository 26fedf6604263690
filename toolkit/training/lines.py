"""Lines that a person types or a file has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from toolkit.common.errors import ToolkitError


@contextmanager
def opened(path: str, hint: str) -> Iterator[BinaryIO]:
    """The input as bytes: what is not UTF-8 is a matter of its line alone.

    At a terminal, `hint` says what to type.
    """
    if path == "-":
        if sys.stdin.isatty():
            print(f"{hint}; end with Ctrl-D.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise ToolkitError(
            f"--input must be a readable file or -, but {path}: {error.strerror}."
        ) from error
    with file:
        yield file
