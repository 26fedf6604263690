import errno
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import time

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.system import is_running
from toolkit.data.loading.array_batch import ArrayBatch
from toolkit.data.loading.prefetch import (
    BatchPrefetcher,
    BatchRequest,
    ExampleError,
    format_ids,
)
from toolkit.data.loading.worker_signals import WORKER_DEATHS, initialize_worker
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch


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


def test_system_without_shared_locks_prepares_batches_in_the_trainer(monkeypatch, caplog):
    monkeypatch.setattr("toolkit.data.loading.prefetch.can_share_locks", lambda processes: False)
    assert [i for ids in prefetch(workers=2) for i in ids] == list(range(40))
    assert "without data workers, which require space in /dev/shm" in caplog.text


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


@pytest.mark.parametrize(
    ("deed", "options"),
    [(die, {}), (lambda: time.sleep(1000), {"timeout_seconds": 1})],
    ids=["killed", "stalled"],
)
def test_torch_forgets_workers_that_were_killed(deed, options):
    """Otherwise, a later iterator at the same address would fail."""
    prefetcher = BatchPrefetcher(Fragile(0, deed), name="data", workers=1, **options)
    make = prefetcher._make_iterator
    address = []

    def make_and_record_the_address():
        batches = make()
        address.append(id(batches))
        return batches

    prefetcher._make_iterator = make_and_record_the_address
    with pytest.raises(ToolkitError, match="a data worker"):
        list(prefetcher.prefetch(lambda: [BatchRequest(np.arange(4), 3)]))
    with pytest.raises(ValueError, match="Cannot find worker information"):
        torch._C._remove_worker_pids(address[0])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed."), ToolkitError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["death", "Ctrl-C"],
)
def test_workers_are_killed_if_the_first_pass_cannot_begin(error, expected, monkeypatch):
    ignored, before = [], multiprocessing.active_children()

    def interrupt(*_):
        raise error

    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._set_SIGCHLD_handler", interrupt)
    with pytest.raises(expected):
        prefetch(workers=2)
    gc.collect()
    assert not ignored and multiprocessing.active_children() == before
    monkeypatch.undo()
    assert len(prefetch(workers=2)) == 10


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot wait without reaping")
def test_worker_deaths_during_an_update_are_raised_at_the_next_batch():
    prefetcher = BatchPrefetcher(Fragile(), name="train of data", workers=1)
    requests = [BatchRequest(np.array([number]), 3) for number in range(40)]
    answers = prefetcher.prefetch(lambda: requests)
    next(answers)
    (worker,) = prefetcher._loader._iterator._workers
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # as if busy with an update
    with pytest.raises(ToolkitError, match="a data worker was killed by SIGKILL while collating"):
        list(answers)


def test_worker_death_whose_signal_is_lost_is_reported_within_seconds(monkeypatch):
    monkeypatch.setattr("toolkit.data.loading.worker_signals.CHECK_SECONDS", 1)
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    monkeypatch.setattr(WORKER_DEATHS, "install_handler", lambda: None)
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._SIGCHLD_handler_set", True)
    try:
        with pytest.raises(ToolkitError, match="a data worker exited with code 1 while collating"):
            prefetch(lambda: os._exit(1), workers=2, timeout_seconds=100)
    finally:
        signal.signal(signal.SIGCHLD, handler)


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
    iterator = one_worker._loader._iterator
    assert iterator._worker_result_queue._reader.poll(30), "a pipe holds the first 64 kB"
    os.kill(iterator._workers[0].pid, signal.SIGSTOP)
    with pytest.raises(ToolkitError, match=STOPPED + "examples [1-9] of train of data"):
        next(answers)


def test_worker_that_is_stopped_between_two_passes_is_reported(one_worker):
    requests = [BatchRequest(np.array([number]), 3) for number in range(2)]
    assert len(list(one_worker.prefetch(lambda: requests))) == 2
    os.kill(one_worker._loader._iterator._workers[0].pid, signal.SIGSTOP)
    with pytest.raises(ToolkitError, match=STOPPED + "train of data"):
        list(one_worker.prefetch(lambda: requests))


def start_trainer(connection):
    """A trainer that waits forever, with two workers that have sent more than anyone reads."""
    examples = Fragile()
    examples.collate = lambda ids, epoch: torch.zeros(2**17, dtype=torch.int64)
    prefetcher = BatchPrefetcher(examples, name="train of data", workers=2)
    next(prefetcher.prefetch(lambda: [BatchRequest(np.array([i]), 3) for i in range(40)]))
    connection.send([worker.pid for worker in prefetcher._loader._iterator._workers])
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
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(name) for name in names]
    try:
        initialize_worker(0)
        assert all(signal.getsignal(name) is signal.SIG_IGN for name in names)
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
