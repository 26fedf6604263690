"""Scenario 4: saved by two ranks and resumed by one, and back, in the middle of an epoch."""

from __future__ import annotations

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.distributed.data_parallel import to_full
from toolkit.tasks.pretraining.mlm import MaskedExamples
from toolkit.training.run import TrainingRun

BATCHES = 4
"""Micro-batches of an update. An epoch has ten, so that its third update is short."""


def part(config, world, *, until=None, **options):
    """Train up to an update as if a signal stopped it; ids and loss of each update, and state."""
    served, updates = [], []
    collate = MaskedExamples.collate

    def recorded(self, ids, epoch):
        if epoch is not None and len(ids):
            served.append([int(i) for i in ids])
        return collate(self, ids, epoch)

    def advance(step):
        loss = world.all_reduce(
            torch.stack([total.double() for total in step.losses.values()]).sum()
        )
        updates.append((step.update, list(served), float(loss) / sum(step.weights.values())))
        served.clear()
        if step.update == until:
            training.trainer.request_stop()

    MaskedExamples.collate = recorded
    how = {"batch_size": 4, "micro_batches_per_update": BATCHES, "lr": 0.01, **options}
    training = TrainingRun(config(**how), world)
    training.advance_progress_bar = advance
    try:
        training.fit()
        learner = training.trainer.learner
        end = torch.cat([to_full(p.detach()).flatten() for p in learner.parameters()])
    finally:
        training.close()
        MaskedExamples.collate = collate
    return updates, end.tolist()


def merged(of_ranks):
    """The updates of all ranks as one: their micro-batches in turn."""
    found = []
    for same in zip(*(updates for updates, _ in of_ranks), strict=True):
        update, _, loss = same[0]
        deepest = max(len(served) for _, served, _ in same)
        ids = [s[i] for i in range(deepest) for _, s, _ in same if i < len(s)]
        found.append((update, ids, loss))
    return found


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "sharding"),
    [
        ((2, 1, 2), "none"),
        pytest.param((2, 1, 2), "full", marks=SLOW),
    ],
)
def test_run_resumes_with_another_number_of_ranks_to_the_same_weights(
    config, tmp_path, ranks, sizes, sharding
):
    wanted, end = part(config, World(), save_dir=str(tmp_path / "whole"))
    assert [len(ids) for _, ids, _ in wanted] == [4, 4, 2] * 2
    found = []
    for size, until in zip(sizes, (2, 4, None), strict=True):
        if size == 1:
            pieces = [part(config, World(), until=until)]
        else:
            pieces = ranks(lambda w, at=until: part(config, w, until=at, sharding=sharding), size)
        found += merged(pieces)
    assert [update[:2] for update in found] == [update[:2] for update in wanted], "same examples"
    assert [loss for *_, loss in found] == pytest.approx([loss for *_, loss in wanted], rel=1e-6)
    torch.testing.assert_close(torch.tensor(pieces[0][1]), torch.tensor(end), atol=1e-6, rtol=1e-5)


@SLOW
def test_accumulation_may_change_within_an_epoch(config):
    options = {"micro_batches_per_update": None, "batch_size": 4}
    before, _ = part(config, World(), until=1, **{**options, "update_freq": 3})
    after, _ = part(config, World(), **{**options, "update_freq": 2})
    seen = [i for _, ids, _ in before + after for batch in ids for i in batch]
    assert sorted(seen) == sorted([*range(38)] * 2), "each once in both epochs"


def test_ranks_that_do_not_divide_the_batch_get_the_possible_numbers(config, ranks):
    def refused(world):
        with pytest.raises(ToolkitError, match=r"is 4 for 3\. Start one of 1, 2, 4 processes"):
            TrainingRun(config(micro_batches_per_update=BATCHES), world)
        return True

    assert ranks(refused, 3) == [True] * 3
