"""Out-of-memory errors, of a GPU or of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

OOM_MESSAGES = ("DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of errors about memory that are not an OutOfMemoryError."""


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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a GPU or the host ran out of memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(text in str(error) for text in OOM_MESSAGES)


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its period, or the name of its class."""
    return (str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")
