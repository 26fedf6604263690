import math

import pytest
import torch

from toolkit.distributed import World
from toolkit.optim.update import Update
from toolkit.training.callbacks.logging import Meters
from toolkit.training.step import Step, TrainingProgress


def step(loss, weight=2.0, *, norm=1.0, clipped=0.0, skipped=0.0):
    return Step(
        progress=TrainingProgress(update=1),
        epoch=1,
        losses={"word": torch.tensor(loss)},
        weights={"word": weight, "even": 1.0},
        tokens=7,
        learning_rate=0.1,
        outcome=Update(*(torch.tensor(x) for x in (norm, clipped, skipped))),
        micro_batches=[],
    )


def test_means_are_weighted_over_updates():
    meters = Meters()
    for s in (step(6.0, 2.0, clipped=1.0), step(1.0, 5.0, norm=3.0)):
        meters.add(s)
    means = meters.read().compute({"word": 0.5})
    assert means["word_loss"] == 1.0 and means["loss"] == 0.5
    assert means["ppl"] == pytest.approx(math.e)
    assert means["gradient_norm"] == 2.0 and means["clip_rate"] == 0.5


def test_skipped_update_leaves_the_means_alone():
    meters = Meters()
    meters.add(step(4.0))
    meters.add(step(math.nan, norm=math.inf, skipped=1.0))
    means = meters.read().compute({"word": 1.0})
    assert (means["loss"], means["gradient_norm"], means["skipped_updates"]) == (2.0, 1.0, 1.0)
    assert meters.read().updates == 2 and meters.read().tokens == 14


def test_meters_restore_their_state_exactly():
    whole, first, second = Meters(), Meters(), Meters()
    for i in range(5):
        whole.add(step(0.1 * i))
    for i in range(3):
        first.add(step(0.1 * i))
    second.restore(first.state(World()), World())
    for i in range(3, 5):
        second.add(step(0.1 * i))
    assert second.read() == whole.read()


def test_intermediate_reads_do_not_change_the_sums(monkeypatch):
    seldom, often = Meters(), Meters()
    for i in range(6):
        seldom.add(step(0.1 * i))
    monkeypatch.setattr("toolkit.training.callbacks.logging.READ_INTERVAL", 2)
    for i in range(6):
        often.add(step(0.1 * i))
    assert often.read() == seldom.read()


@pytest.mark.slow
def test_ranks_sum_losses_and_tokens_and_share_the_rest(ranks):
    def measure(world):
        meters = Meters()
        meters.add(step(1.0 + world.rank, 3.0))
        state = meters.state(world)
        meters.restore(state, world)
        return state, meters.state(world)

    for state, again in ranks(measure):
        assert state == again
        assert (state["losses"], state["weights"]["word"], state["tokens"]) == ({"word": 3}, 3, 14)
