"""Out-of-memory errors, of a GPU or of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from toolkit.common.errors import first_line, is_out_of_memory

T = TypeVar("T")


def run_in_memory(function: Callable[[], T]) -> tuple[T | None, str]:
    """The function's result; or None and the allocator's message, if memory ran out.

    On return the failed attempt's tensors are free, since its traceback is gone.
    """
    try:
        return function(), ""
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, first_line(error)
