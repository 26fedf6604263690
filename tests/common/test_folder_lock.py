import errno
import fcntl
import json
import multiprocessing
import os
import signal
import socket

import filelock
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.system import HOLDER, FolderLock

CONTEXT = multiprocessing.get_context("fork")


def acquire(folder, errors):
    try:
        FolderLock(folder).acquire()
    except ToolkitError as error:
        errors.put(str(error))
    else:
        errors.put("")


def error_of_another_process(folder):
    """The error of another process that acquires the lock; empty if it succeeds."""
    errors = CONTEXT.Queue()
    process = CONTEXT.Process(target=acquire, args=(folder, errors))
    process.start()
    error = errors.get(timeout=30)
    process.join()
    return error


def hold(folder, child_id):
    lock = FolderLock(folder)
    lock.acquire()
    child = os.fork()
    if child == 0:
        signal.pause()  # a data worker that outlives its killed trainer
    child_id.put(child)
    signal.pause()


@pytest.fixture
def killed_holder(tmp_path):
    """The id of a process that was killed while it held the lock; its child is alive."""
    child_id = CONTEXT.Queue()
    process = CONTEXT.Process(target=hold, args=(tmp_path, child_id))
    process.start()
    child = child_id.get(timeout=30)
    try:
        assert f"process {process.pid} on" in error_of_another_process(tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        yield process.pid
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.fixture
def without_flock(monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_folder_lock_rejects_a_second_process_and_names_the_first(tmp_path):
    lock = FolderLock(tmp_path)
    lock.acquire()
    error = error_of_another_process(tmp_path)
    assert error.startswith(f"Another run is using {tmp_path}: process {os.getpid()} on ")
    assert f" on {socket.gethostname()} (since " in error
    assert error.endswith("stop it, or choose another --save-dir.")
    lock.release()
    assert error_of_another_process(tmp_path) == ""


def test_folder_lock_is_reentrant(tmp_path):
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.acquire()
    second.acquire()
    first.release()
    assert error_of_another_process(tmp_path)
    second.release()
    assert error_of_another_process(tmp_path) == ""


def test_folder_lock_is_taken_over_from_a_killed_process_with_a_living_child(
    tmp_path, killed_holder, caplog
):
    FolderLock(tmp_path).acquire()
    assert f"taken over from process {killed_holder} on" in caplog.text


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_folder_lock_without_flock_respects_a_living_process(tmp_path, without_flock):
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert f"process {os.getpid()} on" in error_of_another_process(tmp_path)
    lock.release()
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_folder_lock_without_flock_is_taken_over_from_a_dead_process(
    tmp_path, without_flock, killed_holder
):
    lock = FolderLock(tmp_path)
    if tuple(map(int, filelock.__version__.split(".")[:2])) < (4, 2):
        with pytest.raises(ToolkitError, match=r"has ended, delete .*\.lock"):
            lock.acquire()
        return
    lock.acquire()
    assert json.loads((tmp_path / HOLDER).read_text())["pid"] == os.getpid()
