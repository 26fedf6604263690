import os
import signal

import pytest
import torch

from toolkit.training.callbacks.stopping import listen_for_signals


def flat(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.parameters])


def test_non_finite_loss_on_one_rank_skips_the_update_on_both(ranks, make_trainer, batches):
    def step(world):
        trainer = make_trainer(world=world)
        before, sums = flat(trainer), trainer.criterion.forward
        if world.rank == 1:
            trainer.criterion.forward = lambda p: {k: v + torch.inf for k, v in sums(p).items()}
        outcome = trainer.step([batches[world.rank]], 2).outcome
        return float(outcome.skipped), torch.equal(flat(trainer), before)

    assert ranks(step) == [(1.0, True)] * 2


@pytest.mark.slow
def test_signal_to_one_rank_stops_both_before_the_same_update(ranks, make_trainer, batches, memory):
    def train(world):
        trainer = make_trainer(world=world)

        def callback(step):
            if world.rank == 1 and step.update == 2:
                os.kill(os.getpid(), signal.SIGUSR1)

        with listen_for_signals(trainer.request_stop) as received:
            trainer.fit(
                lambda epoch: memory(batches, rank=world.rank, ranks=2),
                max_update=9,
                callbacks=[callback],
            )
        return trainer.progress.update, received

    assert ranks(train) == [(2, []), (2, [signal.SIGUSR1])]
