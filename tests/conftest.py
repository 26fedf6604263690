"""What every test may use: the repository, and the real data where it is at hand."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real corpora; a test that needs one of them is skipped without it."""
    named = os.environ.get("TOOLKIT_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; TOOLKIT_DATA names the folder that holds it")
    return folder


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def as_rank(function, rank, size, port, answers):
    import torch

    from toolkit.distributed import launch

    torch.set_num_threads(1)
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{size}"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    try:
        with launch("cpu") as world:
            answers.put((rank, function(world), None))
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))


@pytest.fixture
def ranks():
    """Calls a function of a World in so many processes; gives their answers, plain data."""

    def call(function, size=2):
        context = multiprocessing.get_context("fork")
        answers, port = context.Queue(), free_port()
        processes = [
            context.Process(target=as_rank, args=(function, rank, size, port, answers))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        found = sorted((answers.get(timeout=60) for _ in processes), key=lambda answer: answer[0])
        for process in processes:
            process.join(timeout=30)
        errors = [error for *_, error in found if error]
        assert not errors, errors[0]
        return [value for _, value, _ in found]

    return call
