import errno
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.files import is_running
from toolkit.data.loading.loader import (
    BatchPrefetcher,
    ExampleError,
    map_parts,
)
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch


class Fragile:
    """Examples of which one calls `deed` whenever it is collated."""

    lengths = np.ones(40, np.int64)
    fingerprint = "fragile"

    def __init__(self, bad=13, deed=None):
        self.bad, self.deed = bad, deed

    def collate(self, ids, epoch):
        if self.deed and self.bad in ids:
            self.deed()
        return ids.tolist(), epoch, torch.tensor(ids)


def refuse():
    raise ToolkitError("item 7 is damaged.")


def divide():
    return 1 / 0


def prefetch(deed=None, **options):
    prefetcher = BatchPrefetcher(Fragile(deed=deed), name="train of data", **options)
    requests = [(np.arange(start, start + 4), 3) for start in range(0, 40, 4)]
    try:
        return [ids for ids, *_ in prefetcher.prefetch(requests)]
    finally:
        prefetcher.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_prefetcher_answers_requests_in_order(workers):
    assert [i for ids in prefetch(workers=workers) for i in ids] == list(range(40))


@pytest.mark.parametrize("workers", [0, 1])
def test_user_errors_arrive_unchanged(workers):
    with pytest.raises(ToolkitError, match=r"^item 7 is damaged\.$"):
        prefetch(refuse, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_bugs_are_reported_with_the_example_and_its_data(workers):
    with pytest.raises(
        ExampleError,
        match=r"cannot collate example 13 of train of data: ZeroDivisionError",
    ):
        prefetch(divide, workers=workers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers inherit the limit of this process")
def test_workers_need_no_shared_memory():
    """Workers that cannot make files, as those of torch's shared memory are."""
    none = resource.RLIM_INFINITY
    make_no_files = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, none))  # noqa: E731
    assert [i for ids in prefetch(make_no_files, workers=1) for i in ids] == list(range(40))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system starts workers in another way")
@pytest.mark.parametrize("started", [0, 1])
def test_workers_that_cannot_be_started_are_one_line(started, monkeypatch):
    ignored, forks, fork = [], [], os.fork

    def fork_until_the_limit():
        forks.append(1)
        if len(forks) > started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return fork()

    before = multiprocessing.active_children()
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr(os, "fork", fork_until_the_limit)
    with pytest.raises(ToolkitError, match=r"cannot start 2 data workers: Resource .*Use fewer"):
        prefetch(workers=2)
    gc.collect()
    assert not ignored and multiprocessing.active_children() == before


def test_array_batch_restores_the_batch():
    inputs = Inputs(torch.arange(6).view(2, 3), padding=torch.zeros(2, 3, dtype=torch.bool))
    batch = TargetBatch(inputs, torch.tensor([1]), torch.tensor(4), {"mlm": 1.0}, 2, 6)
    sent = pickle.loads(pickle.dumps(map_parts(batch, torch.Tensor, torch.Tensor.numpy)))
    restored = map_parts(sent, np.ndarray, torch.from_numpy)
    assert type(restored) is TargetBatch and type(restored.inputs) is Inputs
    for one, other in zip(restored[1:3], batch[1:3], strict=True):
        assert one.equal(other) and one.dtype == other.dtype
    assert restored.inputs.tokens.equal(inputs.tokens) and restored.inputs.char_ids is None
    assert restored.inputs.padding.equal(inputs.padding) and restored[3:] == batch[3:]
    restored.targets.add_(1)  # the memory can be written


@pytest.fixture
def one_worker():
    """A worker that prepares batches of 1 MB, and answers within three seconds."""
    examples = Fragile()
    examples.collate = lambda ids, epoch: torch.zeros(2**17, dtype=torch.int64)
    prefetcher = BatchPrefetcher(examples, name="train of data", workers=1, timeout_seconds=3)
    yield prefetcher
    prefetcher.close()


STOPPED = r"has not answered within data.timeout_seconds \(3\); it is collating "


@pytest.mark.slow
def test_worker_that_is_stopped_while_it_sends_a_batch_is_reported(one_worker):
    answers = one_worker.prefetch([(np.array([i]), 3) for i in range(9)])
    next(answers)
    os.kill(one_worker.workers[0].process.pid, signal.SIGSTOP)
    with pytest.raises(ToolkitError, match=STOPPED + "examples [1-9] of train of data"):
        list(answers)


def start_trainer(connection):
    """A trainer that waits forever, with two workers that have sent more than anyone reads."""
    examples = Fragile()
    examples.collate = lambda ids, epoch: torch.zeros(2**17, dtype=torch.int64)
    prefetcher = BatchPrefetcher(examples, name="train of data", workers=2)
    next(prefetcher.prefetch([(np.array([i]), 3) for i in range(40)]))
    connection.send([worker.process.pid for worker in prefetcher.workers])
    time.sleep(1000)


def test_workers_end_with_a_trainer_that_is_killed():
    here, there = multiprocessing.Pipe()
    trainer = multiprocessing.get_context("fork").Process(target=start_trainer, args=[there])
    trainer.start()
    assert here.poll(60)
    workers = here.recv()
    assert len(workers) == 2 and all(map(is_running, workers))
    trainer.kill()
    trainer.join()
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [worker for worker in workers if is_running(worker)]
    for worker in left:
        os.kill(worker, signal.SIGKILL)
    assert not left


def test_workers_ignore_the_signals_of_their_process_group():
    prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=1)
    requests = [(np.array([number]), 3) for number in range(40)]
    answers = prefetcher.prefetch(requests)
    next(answers)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(prefetcher.workers[0].process.pid, number)
    assert len(list(answers)) == 39
    prefetcher.close()


@pytest.mark.slow
def test_program_ends_although_its_workers_were_not_closed():
    code = """if True:
        import numpy as np
        from tests.data.loading.test_prefetch import BatchPrefetcher, Fragile
        prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=2)
        next(prefetcher.prefetch([(np.array([i]), 3) for i in range(40)]))
    """
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
