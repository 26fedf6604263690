from dataclasses import replace

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.optim.update import SpikeDetector
from toolkit.training.callbacks.non_finite import (
    NonFiniteGuard,
    RankConsistencyCheck,
    SkippedUpdateReporter,
    diagnose_non_finite,
    minority_ranks,
    ranks_with_other_norm,
    sum_bits,
)


def fit(trainer, data, updates=50):
    trainer.fit(lambda epoch: data, max_update=updates, callbacks=[NonFiniteGuard(trainer)])


def named(trainer, batch):
    return diagnose_non_finite(trainer.accumulator, [batch], batch.weights)


def test_ten_non_finite_updates_stop_training_and_name_the_layer(make_trainer, batches, memory):
    trainer = make_trainer()
    trainer.learner.encoder.mix.register_forward_hook(lambda m, i, y: y / 0)
    with pytest.raises(ToolkitError, match=r"10 updates in a row .* the output of encoder\.mix"):
        fit(trainer, memory(batches))
    assert trainer.progress.update == 10


def test_finite_update_resets_the_streak(make_trainer, batches, memory):
    trainer = make_trainer()
    broken = [True] * 9 + [False] + [True] * 9 + [False] * 9

    def hook(module, inputs, output):
        return output / 0 if broken[trainer.progress.update] else output

    trainer.learner.encoder.mix.register_forward_hook(hook)
    fit(trainer, memory(batches), 28)
    assert trainer.progress.update == 28


def test_diagnosis_names_a_non_finite_parameter_first(make_trainer, batches):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.learner.task.word.weight[0, 0] = torch.nan
    assert named(trainer, batches[0]) == "the parameter task.word.weight"


def test_diagnosis_names_an_output_gradient(make_trainer, batches):
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.inf

    trainer = make_trainer()
    trainer.learner.encoder.norm.register_forward_pre_hook(lambda m, inputs: Steep.apply(*inputs))
    found = named(trainer, batches[0])
    assert found == "the gradient at the output of encoder.dropout (Dropout)"


def test_diagnosis_leaves_no_gradient_and_no_hook(make_trainer, batches):
    trainer = make_trainer()
    named(trainer, batches[0])
    assert all(p.grad is None for p in trainer.parameters)
    assert not any(module._forward_hooks for module in trainer.learner.modules())
    assert not any(p._backward_hooks for p in trainer.parameters)


def test_loss_scale_below_its_minimum_stops_training_and_names_the_layer(
    make_trainer, batches, memory
):
    trainer = make_trainer(precision="fp16")
    trainer.learner.encoder.mix.register_forward_hook(lambda m, i, y: y / 0)
    error = r"loss scale of fp16 must stay above 0\.0001, but is 6\.1e-05 after update 29 \(epoch 4"
    with pytest.raises(
        ToolkitError, match=error + r"\); .*: the output of encoder\.mix \(Linear\)"
    ):
        fit(trainer, memory(batches))


def test_fp16_overflows_above_the_minimum_scale_do_not_stop_training(make_trainer, batches, memory):
    trainer = make_trainer(precision="fp16")
    trainer.precision.loss_scale.scale.fill_(2.0**40)
    fit(trainer, memory(batches), 40)
    assert trainer.precision.loss_scale.good >= 1


def test_sum_bits_changes_with_any_bit():
    p = torch.linspace(-1, 1, 1000)
    for place, bit in ((0, 0), (999, 31), (500, 12)):
        other = p.clone()
        other.view(torch.int32)[place] ^= -(2**31) if bit == 31 else 2**bit
        assert sum_bits(other) != sum_bits(p)
    assert sum_bits(p.clone()) == sum_bits(p)


def test_minority_ranks_names_the_odd_one_of_three_and_the_second_of_two():
    assert minority_ranks(torch.tensor([[1, 2], [1, 2], [1, 3]])) == [2]
    assert minority_ranks(torch.tensor([[0, 2], [1, 2], [1, 2]])) == [0]
    assert minority_ranks(torch.tensor([[1, 2], [1, 3]])) == [1]
    assert minority_ranks(torch.tensor([[1, 2], [1, 2]])) == []


def test_ranks_with_other_norm_tolerates_only_rounding():
    nan = float("nan")
    assert ranks_with_other_norm([1.0, 1.0 + 1e-7, 1.0]) == ranks_with_other_norm([nan, nan]) == []
    assert ranks_with_other_norm([1.0, 1.0 + 1e-5, 1.0]) == [1]
    assert ranks_with_other_norm([1.0, nan, 1.0]) == [1]


def test_different_gradient_norm_is_reported(ranks, make_trainer, batches):
    def check(world):
        trainer = make_trainer(world=world)
        step = trainer.step([batches[world.rank]], 2)
        object.__setattr__(
            step, "outcome", step.outcome._replace(norm=step.outcome.norm * (1 + world.rank))
        )
        with pytest.raises(ToolkitError, match=r"the same gradient norm, but after update 1 \(ep"):
            RankConsistencyCheck(trainer, 1)(step)

    ranks(check)


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
