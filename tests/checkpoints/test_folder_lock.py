import errno
import fcntl
import gc
import json
import multiprocessing
import os
import signal
import socket

import pytest

from toolkit.checkpoints.folder_lock import NAME, FolderLock
from toolkit.common.errors import ToolkitError

CONTEXT = multiprocessing.get_context("fork")


def asked(folder, answers):
    try:
        FolderLock(folder).acquire()
    except ToolkitError as error:
        answers.put(str(error))
    else:
        answers.put("")


def refused(folder):
    """What another process is told that wants the lock; empty where it gets it."""
    answers = CONTEXT.Queue()
    process = CONTEXT.Process(target=asked, args=(folder, answers))
    process.start()
    told = answers.get(timeout=30)
    process.join()
    return told


def leave(folder, **facts):
    ours = {"host": socket.gethostname(), "pid": os.getpid(), "since": "noon"}
    (folder / NAME).write_text(json.dumps({**ours, **facts}))


@pytest.fixture
def gone():
    """The number of a process that has ended."""
    process = CONTEXT.Process(target=lambda: None)
    process.start()
    process.join()
    return process.pid


@pytest.fixture
def without_flock(monkeypatch):
    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_second_process_is_refused_with_the_host_and_number_of_the_first(tmp_path):
    lock = FolderLock(tmp_path)
    lock.acquire()
    told = refused(tmp_path)
    assert "checkpoint.save_dir must belong to one run at a time, but in" in told
    assert f"trains process {os.getpid()} on {socket.gethostname()} (since " in told
    assert "end it, or choose another --save-dir." in told
    lock.release()
    assert refused(tmp_path) == ""


def test_a_released_lock_leaves_no_file(tmp_path):
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert (tmp_path / NAME).exists()
    lock.release()
    assert not (tmp_path / NAME).exists()


def test_a_lock_goes_with_what_holds_it(tmp_path):
    FolderLock(tmp_path).acquire()
    gc.collect()
    assert refused(tmp_path) == ""


def test_one_process_may_hold_it_twice_until_both_let_go(tmp_path):
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.acquire()
    second.acquire()
    first.release()
    assert refused(tmp_path)
    second.release()
    assert refused(tmp_path) == ""


def hold(folder, ready):
    lock = FolderLock(folder)
    lock.acquire()
    child = os.fork()
    if child == 0:
        signal.pause()  # a data worker that outlives its killed trainer
    ready.put(child)
    signal.pause()


def test_a_killed_process_leaves_the_lock_to_the_next_even_where_its_child_lives(tmp_path, caplog):
    ready = CONTEXT.Queue()
    process = CONTEXT.Process(target=hold, args=(tmp_path, ready))
    process.start()
    child = ready.get(timeout=30)
    try:
        assert f"process {process.pid} on" in refused(tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        FolderLock(tmp_path).acquire()
    finally:
        os.kill(child, signal.SIGKILL)
    assert f"took the save folder over from process {process.pid}" in caplog.text


def test_without_locks_of_the_file_system_a_living_process_is_respected(tmp_path, without_flock):
    leave(tmp_path, pid=os.getppid())
    with pytest.raises(ToolkitError, match=rf"process {os.getppid()} on .* If it is gone, remove"):
        FolderLock(tmp_path).acquire()


def test_without_locks_of_the_file_system_a_dead_process_is_not(tmp_path, without_flock, gone):
    leave(tmp_path, pid=gone)
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()


def test_without_locks_of_the_file_system_another_host_is_believed(tmp_path, without_flock, gone):
    leave(tmp_path, host="elsewhere", pid=gone)
    with pytest.raises(ToolkitError, match=rf"process {gone} on elsewhere \(since noon\)\. Wait"):
        FolderLock(tmp_path).acquire()


def test_a_lock_file_that_its_holder_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    real, removed = fcntl.flock, []

    def flock(descriptor, how):
        real(descriptor, how)
        if not removed:
            removed.append((tmp_path / NAME).unlink())

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert removed and refused(tmp_path)
