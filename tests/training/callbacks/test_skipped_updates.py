from dataclasses import replace

import pytest
import torch

from toolkit.distributed import World
from toolkit.optim.update import SpikeDetector
from toolkit.training.callbacks.non_finite import SkippedUpdateReporter


class Kept:
    def __init__(self):
        self.events = []

    def write(self, event, values):
        self.events.append((event, values))

    def close(self):
        pass


@pytest.fixture
def events(batches, memory):
    """The events of the first updates of a trainer."""

    def fit(trainer, updates=4):
        data, sink = memory(batches), Kept()
        skips = SkippedUpdateReporter(trainer, sink, data.example_ids)
        trainer.fit(lambda epoch: data, max_update=updates, callbacks=[skips])
        assert all(event in ("skipped_update", "split_update") for event, _ in sink.events)
        return [values for _, values in sink.events]

    return fit


def at(trainer, update, change):
    """Change the losses of one update."""
    sums = trainer.criterion.forward

    def forward(predictions):
        found = sums(predictions)
        wrong = trainer.progress.update + 1 == update
        return {name: change(v) for name, v in found.items()} if wrong else found

    trainer.criterion.forward = forward
    return trainer


def test_non_finite_loss_is_reported_with_its_examples(make_trainer, events):
    (values,) = events(at(make_trainer(), 3, lambda v: v / 0))
    assert (values["update"], values["epoch"], values["reason"]) == (3, 1, "loss")
    assert (values["micro_batches"], values["examples"]) == ("2", "20 21")
    text = "skipped: its loss is not finite; micro-batches 2, examples 20 21"
    assert values["text"] == text


def test_non_finite_gradient_is_reported(make_trainer, events):
    trainer = make_trainer(update_freq=2)
    weight = trainer.learner.task.word.weight
    weight.register_hook(lambda g: g / 0 if trainer.progress.update == 1 else g)
    (values,) = events(trainer)
    assert (values["reason"], values["micro_batches"]) == ("gradient", "2 3")


def test_fp16_overflows_are_not_reported(make_trainer, events):
    trainer = make_trainer(precision="fp16")
    trainer.precision.loss_scale.scale.fill_(2.0**40)
    assert events(trainer) == []


def test_spike_is_reported_with_its_norm(make_trainer, events):
    trainer = at(
        make_trainer(spike_detector=SpikeDetector(torch.device("cpu"), window=4)),
        6,
        lambda v: 1e9 * v,
    )
    (values,) = events(trainer, 7)
    assert (values["update"], values["reason"]) == (6, "spike")
    assert values["text"].startswith("skipped as a spike of norm ")


def test_pending_updates_of_a_gpu_are_reported_at_the_end(make_trainer, batches, memory):
    trainer, sink = at(make_trainer(), 3, lambda v: v / 0), Kept()
    skips = SkippedUpdateReporter(trainer, sink, memory(batches).example_ids)
    skips.report_pending()
    trainer.fit(lambda epoch: memory(batches), max_update=3, callbacks=[skips.pending.append])
    assert not sink.events
    skips.report_pending()
    assert [values["update"] for _, values in sink.events] == [3]


def test_report_lists_the_examples_of_the_affected_rank(make_trainer, batches, memory):
    steps, data = [], memory(batches)
    trainer = make_trainer(update_freq=2)
    trainer.fit(lambda epoch: data, max_update=1, callbacks=[steps.append])
    skips = SkippedUpdateReporter(trainer, Kept(), data.example_ids)
    skips.world = World(size=2)
    for ranks in ([0], [1], [0, 1]):
        skips.write_event("skipped_update", replace(steps[0], start=3), "loss", "", ranks)
    assert [values["micro_batches"] for _, values in skips.sink.events] == ["4 6", "3 5", "3 4 5 6"]
