"""The exception for mistakes of the user, and the texts of the operating system's errors."""

from __future__ import annotations

import os

MAX_PATH_LENGTH = 200
"""Longer paths are shortened in messages."""


class ToolkitError(ValueError):
    """A mistake that the user can correct; commands print it as one line and exit with code 2."""


def describe_os_error(error: OSError) -> str:
    """`run/log: Permission denied`; `cannot read or write: No space left on device`."""
    reason = error.strerror or str(error)
    if error.filename is None or isinstance(error.filename, int):
        return f"cannot read or write: {reason}"
    path = os.fsdecode(error.filename)
    if len(path) > MAX_PATH_LENGTH:
        path = f"{path[:MAX_PATH_LENGTH]}..."
    return f"{path}: {reason}"
