"""Processes that torchrun has started: their errors, and the end of torchrun itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from toolkit.common.json_files import dumps

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
