"""Whether another process is still there, what ended it, and the cores that this one may use."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def is_running(process: int) -> bool:
    """Whether a process of this host is there and no zombie."""
    if not Path("/proc/self/stat").exists():
        return has_process(process)
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def has_process(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_name(number: int) -> str:
    """SIGTERM and the like; those for the real time have a number alone."""
    names = {one.value: one.name for one in signal.Signals}
    return names.get(number, f"signal {number}")


def cores() -> int:
    """Those that this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
