"""Separate processes for the fake GPU and for Triton's interpreter, which must come up first."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from tests.gpu import fake_cuda as device

Runner = Callable[..., Any]
NO_TRITON = 'Triton is not installed: pip install -e ".[gpu-sim]"'


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The simulated GPU is not part of the quick tests: it compiles, and interprets kernels."""
    for item in items:
        if item.nodeid.startswith("tests/gpu/"):
            item.add_marker(pytest.mark.slow)


@contextmanager
def own_process(prepare: Callable[[], None]) -> Iterator[Runner]:
    """Calls functions with arguments in one process, which has been prepared for them."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=prepare) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="session")
def fake_cuda() -> Iterator[Runner]:
    """Calls a function where fake tensors can be on a GPU."""
    if reason := device.missing():
        pytest.skip(reason)
    with own_process(device.load) as run:
        yield run


@pytest.fixture(scope="session")
def triton_installed() -> None:
    if find_spec("triton") is None:
        pytest.skip(NO_TRITON)


def interpret() -> None:
    """Triton reads the variable when it is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    from tests.gpu import interpreter

    interpreter.repair()


@pytest.fixture(scope="session")
def interpreter(triton_installed: None) -> Iterator[Runner]:
    """Calls a function where Triton's kernels run on the CPU, one operation at a time."""
    with own_process(interpret) as run:
        yield run
