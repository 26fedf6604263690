"""One run at a time in a save folder; the second one is told the first one's host and process.

The kernel's lock (flock) on a file decides. It goes with its process, however that ends, and holds
between hosts where the file system forwards it (NFS, Lustre with its flock option). Where the file
system has none, the file itself decides: the process it names is looked for on its own host, and
believed to be there on another one.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import weakref
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

NAME = ".lock"

log = logging.getLogger(__name__)
_held: dict[Path, int] = {}
"""Locked file -> its descriptor in this process."""
_holders: Counter[Path] = Counter()
"""Locked file -> how often this process holds it."""


class FolderLock:
    """Held from `acquire` to `release`, or as long as this object; a process may hold it twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._end: Any = None

    def acquire(self) -> None:
        """Raise ToolkitError where another process holds it."""
        path = self.folder.resolve() / NAME
        if path not in _held:
            _held[path] = descriptor = open_locked(path)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(describe_own_process()).encode(), 0)
        _holders[path] += 1
        self._end = weakref.finalize(self, release, path)

    def release(self) -> None:
        if self._end is not None:
            self._end()


def release(path: Path) -> None:
    """Remove the file while it is still locked, so that nobody locks one without a name."""
    _holders[path] -= 1
    if path in _held and _holders[path] < 1:
        with suppress(OSError):
            path.unlink()
        os.close(_held.pop(path))


def open_locked(path: Path) -> int:
    """The file's descriptor, locked; opened again where its last holder has just removed it."""
    while True:
        before = read_holder(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            kernel_decides = try_flock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise locked_error(path, read_holder(path) or {}) from None
        if not kernel_decides and before and is_alive(before):
            os.close(descriptor)
            raise locked_error(path, before, f" If it is gone, remove {path}.")
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            if before:
                log.warning(
                    "%s: took the save folder over from %s, gone.", path, format_holder(before)
                )
            return descriptor
        os.close(descriptor)


def try_flock(descriptor: int) -> bool:
    """Take the kernel's lock; False where the file system has none."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def describe_own_process() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since}


def read_holder(path: Path) -> dict[str, Any] | None:
    """What the file says about its process; None where it says nothing, or is not there."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("pid"), int) else None


def is_alive(found: dict[str, Any]) -> bool:
    """Whether a process is there; one on another host cannot be seen and counts as there."""
    if found.get("host") != socket.gethostname():
        return True
    try:
        os.kill(found["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return found["pid"] != os.getpid()


def format_holder(found: dict[str, Any]) -> str:
    if not found:
        return "another process"
    return f"process {found['pid']} on {found.get('host')} (since {found.get('since')})"


def locked_error(path: Path, found: dict[str, Any], remedy: str = "") -> ToolkitError:
    return ToolkitError(
        f"checkpoint.save_dir must belong to one run at a time, but in {path.parent} trains "
        f"{format_holder(found)}. Wait for it, end it, or choose another --save-dir.{remedy}"
    )


def close_inherited() -> None:
    """A forked process, such as a data worker, is not the holder and must not outlive it as one."""
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=close_inherited)
