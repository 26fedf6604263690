"""Errors that users can cause, and names in messages and logs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence

TEMPORARY = re.compile(r"\.([^/]+)\.\d+\.tmp(?=/|$)")
"""Name of what is written before it is renamed; messages name what it becomes."""


class ToolkitError(ValueError):
    """A mistake that the user can correct; commands print it as one line and exit with code 2."""

    details: Sequence[str] = ()
    """Lines that commands print below it, such as a table."""


STANDARD_OUTPUT = "standard output"
"""Name of the file in errors of writing to it."""


def describe_os_error(error: OSError) -> str:
    """`run/log: Permission denied. ...`, `cannot write standard output: Broken pipe.`"""
    reason = error.strerror or str(error)
    if error.filename == STANDARD_OUTPUT:
        return f"cannot write {STANDARD_OUTPUT}: {reason}."
    if error.filename is None or isinstance(error.filename, int):
        return f"cannot read or write: {reason}."
    path = TEMPORARY.sub(r"\1", os.fsdecode(error.filename))
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{path}: {reason}. {'Make room' if full else 'Check the path'}, or choose another."


OOM_MESSAGES = ("DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of errors about memory that are not an OutOfMemoryError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a GPU or the host ran out of memory."""
    classes = {cls.__name__ for cls in type(error).__mro__}  # of torch, which is slow to import
    named = bool(classes & {"MemoryError", "OutOfMemoryError"})
    return named or any(text in str(error) for text in OOM_MESSAGES)


LIBRARY_ERRORS = {"SafetensorError", "ArrowException", "MsgspecError"}
"""Classes of errors about files, as of a full disk, that are no OSError."""


def describe_error(error: Exception) -> str:
    """The line for a mistake of the user, or an error of files or memory; empty for a bug."""
    if isinstance(error, ToolkitError):
        return str(error)
    if is_out_of_memory(error):
        hint = "Use smaller batches, a smaller model or smaller files."
        return f"out of memory: {first_line(error)}. {hint}"
    if isinstance(error, OSError):
        return describe_os_error(error)
    if isinstance(error, UnicodeError):
        text = ascii(getattr(error, "object", ""))[:200]
        return f"{text} is not UTF-8. Rename the file, or convert its text."
    of_library = LIBRARY_ERRORS & {cls.__name__ for cls in type(error).__mro__}
    return f"{first_line(error)}. Check the disk and the file." if of_library else ""


CONTROLS = {code: ascii(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
"""Control characters, for `str.translate`, to their escapes: data must not steer a terminal."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its period, or the name of its class."""
    return (str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")


def join_first(items: Sequence[object], max_items: int = 5, separator: str = ", ") -> str:
    """The first items, and how many more there are: "a, b and 3 more"."""
    rest = len(items) - max_items
    return separator.join(map(str, items[:max_items])) + (f" and {rest} more" if rest > 0 else "")


METRIC_EVENTS = ("train", "valid")
RUN_EVENTS = ("start", "save", "save_failed", "skipped_update", "split_update", "end")
"""Events that are not shown on dashboards."""
EVENTS = METRIC_EVENTS + RUN_EVENTS
"""The events that toolkit-train writes. Others have the names of callbacks."""
