"""The machine and its processes: memory, signals, torchrun, and the git commit of a folder."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from toolkit.common.json_files import dumps

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
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def is_running(process: int) -> bool:
    """Whether a process of this host exists and is not a zombie."""
    if not Path("/proc/self/stat").exists():
        return has_process(process)
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def has_process(process: int) -> bool:
    """Whether a process with this id exists, of any user."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_name(number: int) -> str:
    """SIGTERM and the like; real-time signals have only a number."""
    names = {known.value: known.name for known in signal.Signals}
    return names.get(number, f"signal {number}")


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
    except (ValueError, OSError):
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
    except FileNotFoundError:
        return {"no_commit": "git is not installed"}
    except subprocess.TimeoutExpired:
        return {"no_commit": f"git took longer than {TIMEOUT_SECONDS} seconds"}
    except (OSError, subprocess.CalledProcessError):
        tracked, status = "", []
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


def stop_with_launcher() -> threading.Thread:
    """Send this process SIGTERM once torchrun is gone, such as by kill -9; training then saves."""

    def watch(parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch, args=[os.getppid()], daemon=True)
    watcher.start()
    return watcher


def let_first_rank_report() -> None:
    """Wait if the first rank of this machine may report the same error."""
    if os.environ.get("LOCAL_RANK") != "0":
        wait_to_be_ended()


def wait_to_be_ended() -> None:
    """Give torchrun the time to end this process, as it does after another one has failed."""
    if is_launched():
        time.sleep(REPORT_SECONDS)


def record_error(message: str) -> None:
    """Store an error for torchrun, whose table of failed ranks shows it as `traceback`."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        extra = {"py_callstack": message, "timestamp": str(int(time.time()))}
        with suppress(OSError):
            error = dumps({"message": {"message": message, "extraInfo": extra}})
            Path(path).write_text(error, "utf-8", errors="backslashreplace")
