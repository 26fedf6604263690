import math
from dataclasses import replace
from time import sleep

import pytest
import torch

from toolkit.distributed import World
from toolkit.optim.update import Update
from toolkit.training.callbacks.logging import Meters, MetricsLogger
from toolkit.training.step import Step, TrainingProgress


class Recorder:
    def __init__(self):
        self.records = []

    def write(self, event, values):
        self.records.append((event, dict(values)))

    def close(self):
        pass


def test_rates_include_the_time_before_a_resume(make_trainer, batches, memory):
    first, second = make_trainer(), make_trainer()
    before, after = (MetricsLogger(trainer, Recorder(), 8, 8) for trainer in (first, second))
    first.fit(lambda epoch: memory(batches), max_update=7, callbacks=[before])
    first.busy_seconds = 1000.0
    after.restore(before.state())
    second.progress = first.progress
    second.fit(lambda epoch: memory(batches), max_update=8, callbacks=[after])
    [(_, values)] = after.sink.records
    assert values["updates_per_second"] == pytest.approx(8 / 1000, rel=0.01)
    assert values["seconds"] == pytest.approx(1000, rel=0.01)


@pytest.mark.slow
def test_updates_that_a_gpu_has_not_finished_count_as_time_of_training(
    make_trainer, batches, memory, monkeypatch
):
    """The host is ahead of a GPU by as much as a synchronization takes."""
    trainer = make_trainer()
    logger = MetricsLogger(trainer, Recorder(), 4, 4)
    monkeypatch.setattr("toolkit.training.trainer.synchronize", lambda device: sleep(0.5))
    trainer.fit(lambda epoch: memory(batches), max_update=4, callbacks=[logger])
    [(_, values)] = logger.sink.records
    assert values["seconds"] > 0.5
    assert values["updates_per_second"] == pytest.approx(4 / values["seconds"])
    assert values["updates_per_second"] < 8


@pytest.mark.parametrize("wait, told", [(0.0, True), (0.5, False)])
def test_updates_that_the_cpu_limits_are_reported_once(
    make_trainer, batches, memory, monkeypatch, wait, told
):
    """Of a GPU that is behind the host by some time, where launching an update takes a second."""
    trainer, messages, clock = make_trainer(), [], [0.0]

    def advance(seconds):
        clock[0] += seconds

    logger = MetricsLogger(trainer, Recorder(), 2, 8, None, messages.append)
    step = trainer.update_parameters
    trainer.update_parameters = lambda loss: (advance(1.0), step(loss))[1]
    monkeypatch.setattr("toolkit.training.trainer.perf_counter", lambda: clock[0])
    monkeypatch.setattr(logger, "utilization", lambda *_: {})
    monkeypatch.setattr("toolkit.training.callbacks.logging.peak_memory_gib", lambda _: 1.0)
    monkeypatch.setattr("toolkit.training.trainer.synchronize", lambda device: advance(wait))

    class OnGpu:  # for the logger only: the tensors are on the CPU
        learner, precision = trainer.learner, trainer.precision
        world = replace(trainer.world, device=torch.device("cuda"))

        def __getattr__(self, name):
            return getattr(trainer, name)

    logger.trainer = OnGpu()
    trainer.fit(lambda epoch: memory(batches), max_update=8, callbacks=[logger])
    assert (len(messages) == 1) is told
    rates = [values.get("launch_rate") for _, values in logger.sink.records]
    assert rates[0] is None and all((rate > 0.9) is told for rate in rates[1:])


def test_the_console_shows_the_first_updates_and_the_log_the_intervals(
    make_trainer, batches, memory
):
    trainer, console = make_trainer(), Recorder()
    logger = MetricsLogger(trainer, Recorder(), 8, 11, console)
    trainer.fit(lambda epoch: memory(batches), max_update=11, callbacks=[logger])
    shown, logged = ([v["update"] for _, v in it.records] for it in (console, logger.sink))
    assert (shown, logged) == ([1, 2, 5], [8, 11])
    assert {"loss", "tokens_per_second", "updates_per_second"} <= console.records[0][1].keys()


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


def test_means_that_lack_an_objective_lack_the_loss_unless_it_has_no_weight():
    meters = Meters()
    meters.add(step(6.0, 2.0))
    of_word = {"word_loss": 3.0, "ppl": math.exp(3)}
    for coefficients, losses in (
        ({"word": 1.0, "rare": 0.1}, of_word),
        ({"rare": 0.1, "word": 1.0}, {"word_loss": 3.0}),
        ({"word": 1.0, "rare": 0.0}, {"loss": 3.0, **of_word}),
    ):
        found = meters.read().compute(coefficients)
        kept = {it: found[it] for it in found if it == "ppl" or it.endswith("loss")}
        assert kept == pytest.approx(losses)


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
