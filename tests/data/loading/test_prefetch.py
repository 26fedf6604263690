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
from toolkit.common.system import is_running
from toolkit.data.loading.prefetch import (
    ArrayBatch,
    BatchPrefetcher,
    BatchRequest,
    ExampleError,
    format_ids,
)
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import MaskedBatch


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
    requests = [BatchRequest(np.arange(start, start + 4), 3) for start in range(0, 40, 4)]
    try:
        return [ids for ids, *_ in prefetcher.prefetch(lambda: requests)]
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


def test_lack_of_threads_for_workers_is_one_line(monkeypatch):
    def refuse_threads(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading._start_new_thread", refuse_threads)
    with pytest.raises(ToolkitError, match="cannot start 2 data workers: can't start new thread"):
        prefetch(workers=2)


def test_array_batch_restores_the_batch():
    inputs = Inputs(torch.arange(6).view(2, 3), padding=torch.zeros(2, 3, dtype=torch.bool))
    batch = MaskedBatch(inputs, torch.tensor([1]), torch.tensor(4), {"mlm": 1.0}, 2, 6)
    restored = pickle.loads(pickle.dumps(ArrayBatch(batch))).unpack()
    assert type(restored) is MaskedBatch and type(restored.inputs) is Inputs
    for one, other in zip(restored[1:3], batch[1:3], strict=True):
        assert one.equal(other) and one.dtype == other.dtype
    assert restored.inputs.tokens.equal(inputs.tokens) and restored.inputs.char_ids is None
    assert restored.inputs.padding.equal(inputs.padding) and restored[3:] == batch[3:]
    restored.targets.add_(1)  # the memory can be written


def test_array_batch_is_pinned_as_tensors(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)  # needs a GPU
    zero = torch.zeros(1, dtype=torch.long)
    batch = MaskedBatch(Inputs(torch.zeros(1, 2, dtype=torch.long)), zero, zero, {}, 1, 2)
    pinned = ArrayBatch(batch).pin_memory()
    assert pinned.inputs.tokens.eq(1).all() and pinned.targets.eq(1).all() and pinned.tokens == 2


def test_bugs_of_no_single_example_are_reported_with_the_batch():
    examples = Fragile()
    examples.collate = lambda ids, epoch: divide() if len(ids) > 1 else None
    prefetcher = BatchPrefetcher(examples, name="train of data")
    with pytest.raises(ExampleError, match=r"^cannot collate examples 4, 5, 6 of train of data: "):
        prefetcher.collate(np.arange(4, 7), 1)


def test_killed_workers_are_reported_with_their_batch_and_a_remedy():
    with pytest.raises(ToolkitError) as caught:
        prefetch(die, workers=2)
    assert str(caught.value) == (
        "a data worker was killed by SIGKILL while collating examples 12, 13, 14, 15 of train of "
        "data. Use fewer --num-workers if memory is short, or 0 to see the error itself."
    )


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_worker_deaths_during_an_update_are_raised_at_the_next_batch():
    prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=1)
    requests = [BatchRequest(np.array([number]), 3) for number in range(40)]
    answers = prefetcher.prefetch(lambda: requests)
    next(answers)
    os.kill(prefetcher.workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(ToolkitError, match="a data worker was killed by SIGKILL while collating"):
        list(answers)


@pytest.mark.slow
def test_stalled_workers_are_reported_with_their_batch_and_stopped():
    with pytest.raises(
        ToolkitError,
        match=r"a data worker has not answered within data.timeout_seconds \(3\); it is collating "
        r"examples 12, 13, 14, 15 of train of data\.",
    ):
        prefetch(lambda: time.sleep(1000), workers=1, timeout_seconds=3)


@pytest.fixture
def one_worker():
    """A worker that prepares batches of 1 MB, and answers within three seconds."""
    examples = Fragile()
    examples.collate = lambda ids, epoch: torch.zeros(2**17, dtype=torch.int64)
    prefetcher = BatchPrefetcher(examples, name="train of data", workers=1, timeout_seconds=3)
    yield prefetcher
    prefetcher.close()


STOPPED = r"has not answered within data.timeout_seconds \(3\); it is collating "


def test_worker_that_is_stopped_while_it_sends_a_batch_is_reported(one_worker):
    answers = one_worker.prefetch(lambda: [BatchRequest(np.array([i]), 3) for i in range(9)])
    next(answers)
    os.kill(one_worker.workers[0].process.pid, signal.SIGSTOP)
    with pytest.raises(ToolkitError, match=STOPPED + "examples [1-9] of train of data"):
        list(answers)


def test_worker_that_is_stopped_between_two_passes_is_reported(one_worker):
    requests = [BatchRequest(np.array([number]), 3) for number in range(2)]
    assert len(list(one_worker.prefetch(lambda: requests))) == 2
    os.kill(one_worker.workers[0].process.pid, signal.SIGSTOP)
    with pytest.raises(ToolkitError, match=STOPPED + "examples 0 of train of data"):
        list(one_worker.prefetch(lambda: requests))


def start_trainer(connection):
    """A trainer that waits forever, with two workers that have sent more than anyone reads."""
    examples = Fragile()
    examples.collate = lambda ids, epoch: torch.zeros(2**17, dtype=torch.int64)
    prefetcher = BatchPrefetcher(examples, name="train of data", workers=2)
    next(prefetcher.prefetch(lambda: [BatchRequest(np.array([i]), 3) for i in range(40)]))
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


def test_format_ids_lists_the_first_examples_of_a_long_batch():
    assert format_ids(np.arange(20), "it") == "examples 0, 1, 2, 3, 4, 5, 6, 7 and 12 more of it"


def test_prefetcher_leaves_the_models_random_numbers_alone():
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    prefetch()
    assert torch.rand(1) == want


def test_workers_ignore_the_signals_of_their_process_group():
    prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=1)
    requests = [BatchRequest(np.array([number]), 3) for number in range(40)]
    answers = prefetcher.prefetch(lambda: requests)
    next(answers)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(prefetcher.workers[0].process.pid, number)
    assert len(list(answers)) == 39
    prefetcher.close()


def test_pass_after_one_that_ended_early_has_its_own_batches():
    prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=2)
    for start in (0, 10, 20):
        requests = [BatchRequest(np.array([start + i]), 3) for i in range(10)]
        batches = prefetcher.prefetch(lambda requests=requests: requests)
        assert [next(batches)[0] for _ in range(3)] == [[start], [start + 1], [start + 2]]
    prefetcher.close()


def test_program_ends_although_its_workers_were_not_closed():
    code = """if True:
        import numpy as np
        from tests.data.loading.test_prefetch import BatchPrefetcher, BatchRequest, Fragile
        prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=2)
        next(prefetcher.prefetch(lambda: [BatchRequest(np.array([i]), 3) for i in range(40)]))
    """
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
