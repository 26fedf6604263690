"""A lock on a folder; a second process gets an error that names the first one.

The lock is the kernel's flock: it ends with its process, however that ends, and holds between hosts
if the file system forwards it (NFS, Lustre mounted with flock). Without flock, the existence of a
file is the lock; filelock 4.2 takes over the lock of a dead process of this host, and older
versions (for Python 3.10) report the file that the user may delete.
"""

from __future__ import annotations

import logging
import os
import socket
import weakref
from dataclasses import asdict, dataclass
from datetime import datetime
from errno import ENOLCK, EOPNOTSUPP
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, read_json, write_json
from toolkit.common.system import is_running

LOCK, HOLDER = ".lock", ".lock.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """The process that holds a folder; it is stored in a file next to the lock."""

    host: str
    pid: Count
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"


class FolderLock:
    """A lock from `acquire` to `release`, or while this object exists; reentrant in a process."""

    def __init__(self, folder: Path, remedy: str = "choose another --save-dir") -> None:
        self.folder, self.remedy = folder, remedy
        self._finalizer: weakref.finalize[[BaseFileLock], FolderLock] | None = None

    def acquire(self) -> None:
        """Raises a ToolkitError if another process holds the folder."""
        folder = self.folder.resolve()
        try:
            lock = lock_file(folder / LOCK)
        except Timeout as error:
            holder = read_holder(folder)
            hint = f" If that process has ended, delete {error.lock_file}."
            raise ToolkitError(
                f"Another run is using {folder}: {holder or 'an unknown process'}. Wait for it, "
                f"stop it, or {self.remedy}.{hint if may_have_ended(holder) else ''}"
            ) from None
        if lock.lock_counter == 1:
            if previous := read_holder(folder):
                log.warning("%s: taken over from %s, which has ended.", folder, previous)
            since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            holder = Holder(socket.gethostname(), os.getpid(), since)
            write_json(folder / HOLDER, asdict(holder), end="")
        self._finalizer = weakref.finalize(self, release, lock)

    def release(self) -> None:
        if self._finalizer:
            self._finalizer()


def lock_file(path: Path) -> BaseFileLock:
    """Lock a file with flock, or by its existence if the file system has no flock."""
    lock: BaseFileLock = FileLock(path, is_singleton=True, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except OSError as error:
        if error.errno not in (ENOLCK, EOPNOTSUPP):
            raise
        path.unlink(missing_ok=True)  # the file in which flock failed
        lock = SoftFileLock(path.with_suffix(".exists"), is_singleton=True, thread_local=False)
        lock.acquire(timeout=0)
    return lock


def release(lock: BaseFileLock) -> None:
    """Release once; the last release removes the files while they are still locked."""
    if not lock.is_locked:
        return  # a forked child never holds its parent's lock
    path = Path(lock.lock_file)
    if lock.lock_counter == 1:
        path.with_name(HOLDER).unlink(missing_ok=True)
        if not isinstance(lock, SoftFileLock):
            path.unlink(missing_ok=True)
    lock.release()


def may_have_ended(holder: Holder | None) -> bool:
    """Whether the holder is on another machine, or is a process that no longer runs."""
    return holder is not None and (
        holder.host != socket.gethostname() or not is_running(holder.pid)
    )


def read_holder(folder: Path) -> Holder | None:
    """The holder named in the folder; None if there is none or its file is unreadable."""
    try:
        return read_json(folder / HOLDER, Holder, "")
    except ToolkitError:
        return None
