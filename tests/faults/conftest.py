"""Ranks that may die or hang: separate processes that leave an exit code and stderr."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from typing import NamedTuple

import pytest

LIMIT_SECONDS = 60
"""Time for both ranks to start, train and exit."""


class Ended(NamedTuple):
    code: int | None
    """Exit code, or minus the number of a signal; None for one that had to be killed."""
    stderr: str
    """Its output on stderr."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def as_rank(function, rank, port, file):
    import torch

    torch.set_num_threads(1)
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 2)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1)
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    function(rank)


@pytest.fixture
def two_ranks(tmp_path, imported):
    """Calls a function of the rank's number in two processes, and waits for them to end."""

    def call(function):
        context, port = multiprocessing.get_context("fork"), free_port()
        files = [tmp_path / f"stderr{rank}" for rank in (0, 1)]
        begun = time.monotonic()
        processes = [
            context.Process(target=as_rank, args=(function, rank, port, file))
            for rank, file in enumerate(files)
        ]
        for process in processes:
            process.start()
        ended = []
        for process, file in zip(processes, files, strict=True):
            process.join(timeout=max(0.0, begun + LIMIT_SECONDS - time.monotonic()))
            code = process.exitcode
            process.kill()
            process.join()
            ended.append(Ended(code, file.read_text()))
        return ended

    return call
