"""Memory that a training step frees is kept for the next step, on Linux.

glibc hands large blocks back to the system as soon as they are free, and every update then faults
the same pages in anew: on a virtual machine that took a third of an update. Kept memory stays with
the process until it ends.
"""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h


def keep_freed_memory() -> bool:
    """Serve every block from the heap, never trim it, in huge pages; whether that could be set.

    Call it before the first large tensor: torch reads the variable once.
    """
    if not sys.platform.startswith("linux"):
        return False
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
