from dataclasses import replace
from time import sleep

import pytest
import torch

from toolkit.training.callbacks.logging import MetricsLogger


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
