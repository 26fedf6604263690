import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.loading.loader import BatchLoader


class Echo:
    """Examples that say who was asked for, and in which epoch."""

    def __init__(self, count=101, fail=None):
        self.lengths = np.random.default_rng(0).integers(1, 50, count)
        self.fingerprint = f"echo {count}"
        self.fail = fail

    def collate(self, ids, epoch):
        if self.fail is not None and self.fail in ids:
            raise ToolkitError("item 7 is damaged.")
        return ids.tolist(), epoch, torch.tensor(ids)


def loader(examples=None, **options):
    defaults = {"max_tokens": 200, "batch_size": None, "seed": 1}
    return BatchLoader(examples or Echo(), **{**defaults, **options})


def served(updates):
    return [[ids for ids, *_ in update] for update in updates]


@pytest.mark.parametrize("ranks", [1, 3])
def test_evaluation_batches_can_be_collated_again_from_their_ids(ranks):
    for rank in range(ranks):
        some = loader(rank=rank, ranks=ranks)
        for number, (ids, *_) in enumerate(some.evaluation()):
            assert some.evaluation_ids(number).tolist() == ids
            assert some.collate(some.evaluation_ids(number))[:2] == (ids, None)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_an_evaluation_sees_every_example_once_over_all_ranks(ranks):
    found = [list(loader(rank=rank, ranks=ranks).evaluation()) for rank in range(ranks)]
    ids = [i for batches in found for ids, *_ in batches for i in ids]
    assert sorted(ids) == list(range(101))
    assert len({len(batches) for batches in found}) == 1
    assert {epoch for batches in found for _, epoch, _ in batches} == {None}


def test_workers_change_nothing():
    alone, helped = loader(), loader(workers=2)
    for epoch, start in ((1, 0), (2, 3), (1, 0)):
        want = served(alone.updates(epoch, start=start, update_freq=2))
        assert served(helped.updates(epoch, start=start, update_freq=2)) == want
    assert [b[0] for b in helped.evaluation()] == [b[0] for b in alone.evaluation()]
    helped.close()


def test_abandoned_pass_does_not_leak_into_the_next():
    helped = loader(workers=2)
    for _ in zip(range(3), helped.updates(1), strict=False):
        pass
    assert served(helped.updates(2)) == served(loader().updates(2))
    helped.close()
    assert served(helped.updates(3)) == served(loader().updates(3))
    helped.close()


def test_loader_fingerprint_changes_with_the_micro_batches():
    want = loader().fingerprint
    assert loader(workers=1, ranks=2).fingerprint == want
    others = [{"seed": 2}, {"max_tokens": 300}, {"batch_size": 8}, {"examples": Echo(50)}]
    assert want not in {loader(**other).fingerprint for other in others}
