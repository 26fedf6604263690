"""Scenario 3: the same order of examples for any number of ranks that divides the batch."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.config.sections import TrainingConfig
from toolkit.data.loading.loader import BatchLoader

GLOBAL_BATCHES = 36
EXAMPLES = 501


class Numbered:
    """Examples whose batch is the list of their ids."""

    lengths = np.random.default_rng(0).integers(3, 40, EXAMPLES)
    fingerprint = "numbered"

    def collate(self, ids, epoch):
        return list(ids)


def updates(ranks, epoch, start=0, workers=0):
    """The micro-batches of each update of an epoch, in order, over all ranks."""
    each = TrainingConfig(micro_batches_per_update=GLOBAL_BATCHES).micro_batches_per_rank(ranks)
    loaders = [
        BatchLoader(
            Numbered(),
            max_tokens=64,
            batch_size=None,
            seed=1,
            rank=rank,
            ranks=ranks,
            workers=workers,
        )
        for rank in range(ranks)
    ]
    of_ranks = [list(loader.updates(epoch, start=start, update_freq=each)) for loader in loaders]
    for loader in loaders:
        loader.close()
    return [
        [rows for index in range(len(shares[0])) for share in shares if (rows := share[index])]
        for shares in zip(*of_ranks, strict=True)
    ]


@pytest.mark.parametrize("ranks", [2, 6, 36])
def test_updates_have_the_same_examples_for_any_number_of_ranks(ranks):
    alone = updates(1, 2)
    assert updates(ranks, 2) == alone
    seen = [i for update in alone for rows in update for i in rows]
    assert sorted(seen) == list(range(EXAMPLES)), "each once"
    assert [len(update) for update in alone[:-1]] == [GLOBAL_BATCHES] * (len(alone) - 1)


@pytest.mark.parametrize("ranks", [1, 4, 18])
def test_epoch_stopped_after_any_update_resumes_with_the_rest(ranks):
    alone = updates(1, 1)
    for cut in range(1, len(alone)):
        assert updates(ranks, 1, start=cut * GLOBAL_BATCHES) == alone[cut:]
