import os
import signal
import time

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.loading.prefetch import (
    BatchPrefetcher,
    BatchRequest,
    ExampleError,
    _leave_signals_to_the_trainer,
    format_ids,
)


class Fragile:
    """Examples of which one does something bad when it is asked for, alone or in a batch."""

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


def served(deed=None, **options):
    server = BatchPrefetcher(Fragile(deed=deed), name="train of data", **options)
    orders = [BatchRequest(np.arange(begin, begin + 4), 3) for begin in range(0, 40, 4)]
    try:
        return [ids for ids, *_ in server.prefetch(lambda: orders)]
    finally:
        server.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_orders_are_answered_in_turn(workers):
    assert [i for ids in served(workers=workers) for i in ids] == list(range(40))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_user_s_error_arrives_as_it_was_raised(workers):
    with pytest.raises(ToolkitError, match=r"^item 7 is damaged\.$"):
        served(refuse, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bug_is_told_with_the_example_and_the_data_it_came_with(workers):
    with pytest.raises(
        ExampleError,
        match=r"example 13 of train of data could not be made a batch of: ZeroDivisionError",
    ):
        served(divide, workers=workers)


def test_a_bug_of_a_batch_but_of_no_example_in_it_names_the_batch():
    examples = Fragile()
    examples.collate = lambda ids, epoch: divide() if len(ids) > 1 else None
    server = BatchPrefetcher(examples, name="train of data")
    with pytest.raises(ExampleError, match=r"^examples 4, 5, 6 of train of data could not"):
        server.collate(np.arange(4, 7), 1)


def test_a_worker_that_is_killed_is_told_with_its_batch_and_what_to_do():
    with pytest.raises(ToolkitError) as caught:
        served(lambda: os.kill(os.getpid(), signal.SIGKILL), workers=2)
    assert str(caught.value) == (
        "every data worker must live to the end, but one was killed by SIGKILL; it was at examples "
        "12, 13, 14, 15 of train of data. Use fewer --num-workers if memory is short, or 0 to see "
        "the error itself."
    )


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot wait without reaping")
def test_a_death_during_an_update_is_told_when_the_next_batch_is_waited_for():
    server = BatchPrefetcher(Fragile(), name="train of data", workers=1)
    orders = [BatchRequest(np.array([number]), 3) for number in range(40)]
    answers = server.prefetch(lambda: orders)
    next(answers)
    (worker,) = server._batches._iterator._workers
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # as if busy with an update
    with pytest.raises(ToolkitError, match="one was killed by SIGKILL; it was at examples"):
        list(answers)


@pytest.mark.slow
def test_a_worker_that_hangs_is_told_with_its_batch_and_ended():
    with pytest.raises(
        ToolkitError,
        match=r"must be ready within data.timeout_seconds, but after 3 seconds a data worker is "
        r"still at examples 12, 13, 14, 15 of train of data\.",
    ):
        served(lambda: time.sleep(1000), workers=1, timeout_seconds=3)


def test_a_long_batch_is_named_by_its_first_examples():
    assert format_ids(np.arange(20), "it") == "examples 0, 1, 2, 3, 4, 5, 6, 7 and 12 more of it"


def test_the_model_s_random_numbers_are_left_alone():
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    served()
    assert torch.rand(1) == want


def test_workers_leave_the_signals_of_their_process_group_to_the_trainer():
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(name) for name in names]
    try:
        _leave_signals_to_the_trainer(0)
        assert all(signal.getsignal(name) is signal.SIG_IGN for name in names)
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
