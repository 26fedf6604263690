"""The machine and its processes: memory, signals, torchrun, git, and the lock on a folder.

The lock is the kernel's flock: it ends with its process, however that ends, and holds between hosts
if the file system forwards it (NFS, Lustre mounted with flock). Without flock, the existence of a
file is the lock; filelock 4.2 takes over the lock of a dead process of this host, and older
versions (for Python 3.10) report the file that the user may delete.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from errno import ENOLCK, EOPNOTSUPP
from functools import cache
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError, first_line
from toolkit.common.files import is_running
from toolkit.common.json_files import Count, dumps, read_json, write_json

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h


def keep_freed_memory() -> bool:
    """Keep freed memory for the next update (Linux, glibc); returns whether that was possible.

    glibc returns large blocks to the system as soon as they are free, and every update then faults
    the same pages in again, which takes a third of its time on a virtual machine. With these
    settings every block comes from the heap, in huge pages, and the heap is never trimmed. Call it
    before the first large tensor: torch reads the variable once.
    """
    if not sys.platform.startswith("linux"):
        return False
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return bool(mallopt and mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def known_signals(*names: str) -> tuple[signal.Signals, ...]:
    """Those of the signals that this system has: Windows has no SIGUSR1 and SIGHUP."""
    return tuple(known for known in signal.Signals if known.name in names)


def signal_name(number: int) -> str:
    """SIGTERM and the like; real-time signals have only a number."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


REPEAT_SECONDS = 1.0
"""Within this time, a second signal of the same kind is the same request.

`timeout` signals its command and then the command's process group, and `pkill` both a sweep and its
runs, which the sweep signals again.
"""


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def processor_name() -> str:
    """Model of the processor, such as `AMD EPYC 9B45`; its architecture if that is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def memory_bytes() -> int | None:
    """Size of the main memory; None if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


TIMEOUT_SECONDS = 10


@cache
def describe_commit(folder: Path) -> dict[str, str | bool]:
    """`commit`, and whether there are `uncommitted_changes` in the folder.

    If git does not track the folder, as that of an installed package: the reason as `no_commit`.
    """
    try:
        tracked = run_git(folder, "ls-files")
        status = run_git(folder, "status", "--porcelain=v2", "--branch").splitlines()
    except subprocess.CalledProcessError:
        tracked, status = "", []
    except (OSError, subprocess.TimeoutExpired) as error:  # it is not installed, or hangs
        return {"no_commit": f"git failed: {first_line(error)}"}
    heads = [line.removeprefix("# branch.oid ") for line in status if "# branch.oid " in line]
    if not tracked or not heads or heads[0] == "(initial)":
        return {"no_commit": "not a git repository"}
    changed = any(not line.startswith("#") for line in status)
    return {"commit": heads[0], "uncommitted_changes": changed}


def run_git(folder: Path, command: str, *options: str) -> str:
    """Output of a git command about the files in a folder."""
    words = ["git", "--no-optional-locks", "-C", str(folder), command, *options, "--", "."]
    other = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    ran = subprocess.run(
        words, env=other, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
    )
    return ran.stdout


REPORT_SECONDS = 5.0
"""Time for the first rank of a machine to report an error that the others have, too."""
POLL_SECONDS = 1.0


def is_launched() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


PARENT = "TOOLKIT_PARENT"
"""Environment variable with the process of the sweep that started this one."""


def stop_with_parent() -> threading.Thread | None:
    """Send this process SIGTERM once torchrun or its sweep is gone, such as by kill -9; training
    then saves. None if neither has started it.
    """
    if not (is_launched() or PARENT in os.environ):
        return None
    parent = int(os.environ.get(PARENT) or os.getppid())

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    return watcher


def wait_to_be_ended() -> None:
    """Give torchrun the time to end this process, as it does after another one has failed."""
    if is_launched():
        time.sleep(REPORT_SECONDS)


def record_error(message: str) -> None:
    """Store an error for torchrun, whose table of failed ranks shows it as `traceback`."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        extra = {"py_callstack": message, "timestamp": str(int(time.time()))}
        with suppress(OSError):
            error = dumps({"message": {"message": message, "extraInfo": extra}})
            Path(path).write_text(error, "utf-8", errors="backslashreplace")


LOCK, HOLDER, WITHOUT_FLOCK = ".lock", ".lock.json", ".exists"

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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._finalizer: weakref.finalize[[Any], FolderLock] | None = None

    def acquire(self, seconds: float = 0.0) -> None:
        """Raises a ToolkitError if another process holds the folder, and still does by then."""
        from filelock import Timeout  # slow to import

        folder = self.folder.resolve()
        try:
            lock = lock_file(folder / LOCK, seconds)
        except Timeout as error:
            holder = read_holder(folder)
            hint = f" If that process has ended, delete {error.lock_file}."
            local = holder is None or holder.host == socket.gethostname()
            unsure = holder is not None and not (local and is_running(holder.pid))
            raise ToolkitError(
                f"Another run is using {folder}: {holder or 'an unknown process'}. Wait for it, "
                f"stop it, or choose another --save-dir.{hint * unsure}"
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


def lock_file(path: Path, seconds: float) -> Any:
    """Lock a file with flock, or by its existence if the file system has no flock."""
    from filelock import BaseFileLock, FileLock, SoftFileLock

    lock: BaseFileLock = FileLock(path, is_singleton=True, thread_local=False)
    try:
        lock.acquire(timeout=seconds)
    except OSError as error:
        if error.errno not in (ENOLCK, EOPNOTSUPP):
            raise
        path.unlink(missing_ok=True)  # the file in which flock failed
        lock = SoftFileLock(path.with_suffix(WITHOUT_FLOCK), is_singleton=True, thread_local=False)
        lock.acquire(timeout=seconds)
    return lock


def release(lock: Any) -> None:
    """Release once; the last release removes the files while they are still locked."""
    if not lock.is_locked:
        return  # a forked child never holds its parent's lock
    path = Path(lock.lock_file)
    if lock.lock_counter == 1:
        path.with_name(HOLDER).unlink(missing_ok=True)
        if path.suffix != WITHOUT_FLOCK:
            path.unlink(missing_ok=True)
    lock.release()


def read_holder(folder: Path) -> Holder | None:
    """The holder named in the folder; None if there is none or its file is unreadable."""
    try:
        return read_json(folder / HOLDER, Holder, "")
    except ToolkitError:
        return None
