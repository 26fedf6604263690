from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore

from toolkit.common.errors import ToolkitError
from toolkit.distributed.launch import ask_for_name, name_launch

TIMEOUT = timedelta(seconds=30)


def join(store, size):
    """The name that each rank of a launch learns."""
    with ThreadPoolExecutor(size) as pool:
        others = [pool.submit(ask_for_name, store, rank, TIMEOUT) for rank in range(1, size)]
        first = pool.submit(name_launch, store, size, TIMEOUT)
        return [each.result() for each in (first, *others)]


def test_all_ranks_learn_the_same_name():
    assert len(set(join(HashStore(), 4))) == 1


def test_restarted_ranks_learn_another_name_from_the_same_store():
    store = HashStore()
    names = [name for _ in range(5) for name in set(join(store, 3))]
    assert len(set(names)) == len(names) == 5


def test_requests_of_ranks_that_have_ended_are_answered_in_vain():
    store = HashStore()
    store.set("request 1", "of a rank that was killed before it got an answer")
    assert len(set(join(store, 2))) == 1


def test_missing_ranks_are_reported():
    with pytest.raises(ToolkitError, match=r"all 3 ranks must join, but 2 did not .* rank 1\."):
        name_launch(HashStore(), 3, timedelta(seconds=0))
