import multiprocessing
import os
import time
from functools import partial

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.files import is_running
from toolkit.data.preprocessing import workers as module
from toolkit.data.preprocessing.workers import WorkerPool


def work(number, fail_at=None):
    if number == fail_at:
        raise ToolkitError(f"bad item {number}")
    return number * number


def test_a_killed_worker_is_reported_with_what_to_do():
    expected = r"a worker process was killed, most often for lack of memory. Use fewer --workers"
    with pytest.raises(ToolkitError, match=expected), WorkerPool(2) as pool:
        list(pool.imap(os._exit, [9, 9]))


def test_workers_end_with_a_killed_main_process():
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def main():
        with WorkerPool(2) as pool:
            list(pool.imap(partial(send_process_id, writer=writer), [0, 1]))

    process = context.Process(target=main)
    process.start()
    workers = [reader.recv() for _ in range(2)]
    assert all(map(is_running, workers))
    process.kill()
    process.join()
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, workers))


def send_process_id(number, writer):
    writer.send(os.getpid())
    time.sleep(30)


@pytest.mark.parametrize("workers", [1, 2])
def test_error_of_a_worker_reaches_the_user_and_stops_the_others(workers):
    with pytest.raises(ToolkitError, match="bad item 4"), WorkerPool(workers) as pool:
        list(pool.imap(partial(work, fail_at=4), range(9)))


@pytest.mark.parametrize("number", [1, 2])
def test_imap_reads_few_items_ahead_and_keeps_their_order(number):
    read = []

    def items():
        for n in range(20):
            read.append(n)
            yield n

    with WorkerPool(number) as workers:
        found = workers.imap(str, items())
        assert next(found) == (0, "0")
        assert len(read) <= 1 + module.PREFETCH * number
        assert [*found] == [(n, str(n)) for n in range(1, 20)]
