"""Passes as graphs: which ones are captured, and what happens if that fails."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.training import cuda_graphs
from toolkit.training.cuda_graphs import record_updates

ADAMW = {"optimizer": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True, weight_decay=0.5)}


class FailingRecorder(OperationRecorder):
    """Runs out of memory after some captures."""

    def __init__(self, captures):
        super().__init__()
        self.limit = captures

    def capture(self, body):
        if self.captures == self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().capture(body)


@pytest.fixture
def graphed(make_trainer):
    """A trainer with graphs, its recorder and messages."""

    def make(recorder=None, **options):
        trainer, messages = make_trainer(**{**ADAMW, **options}), []
        recorder = recorder or OperationRecorder()
        record_updates(trainer, recorder, messages.append)
        return trainer, recorder, messages

    return make


@pytest.fixture
def data(batch):
    """Batches of two shapes in turn, with other tokens and weights each time."""
    random = torch.Generator().manual_seed(0)
    sizes = (3, 2) * 5
    return [batch(torch.randint(1, 11, (n, 4), generator=random)) for n in sizes]


def take(trainer, data):
    steps = [trainer.step([batch], 10**9) for batch in data]
    weights = [p.detach().clone() for p in trainer.parameters]
    return steps, weights


def assert_equal(found, wanted):
    for steps, others in zip(found[0], wanted[0], strict=True):
        assert steps.losses == others.losses and steps.outcome == others.outcome
    assert all(map(torch.equal, found[1], wanted[1]))


def test_a_signature_is_captured_when_it_repeats(graphed, data):
    trainer, recorder, _ = graphed()
    replays = []
    for each in data[:6]:
        trainer.step([each._replace(weights={"word": 3.0, "even": 1.0})], 10**9)
        replays.append(recorder.replays)
    assert replays == [0, 0, 2, 4, 6, 8]  # gradient and update of each batch
    assert recorder.captures == 3


def test_losses_and_outcomes_of_earlier_updates_keep_their_values(graphed, make_trainer, data):
    assert_equal(take(graphed()[0], data), take(make_trainer(**ADAMW), data))


PARTS = {
    "one signature": [[0, 2, 4], [6, 8, 0], [2, 4, 6]],
    "a new one before a graph": [[0, 2], [4, 6], [1, 8], [0, 3]],
}


@pytest.mark.parametrize("indices", PARTS.values(), ids=PARTS)
def test_passes_with_and_without_graphs_add_up(graphed, make_trainer, data, indices):
    def train(trainer):
        steps = [trainer.step([data[i] for i in update], 10**9) for update in indices]
        return steps, [p.detach().clone() for p in trainer.parameters]

    trainer, recorder, _ = graphed()
    assert_equal(train(trainer), train(make_trainer(**ADAMW)))
    assert recorder.captures > 1


def test_the_number_of_graphs_is_limited(graphed, make_trainer, data, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 1)
    trainer, _, messages = graphed()
    assert_equal(take(trainer, data), take(make_trainer(**ADAMW), data))
    assert messages == ["CUDA graphs: captured for 1 shapes of batches; others run without"]


@pytest.mark.parametrize("padded", [False, True])
def test_large_batches_have_graphs_if_they_have_no_padding(graphed, data, monkeypatch, padded):
    monkeypatch.setattr(cuda_graphs, "MAX_TOKENS", 12)
    trainer, recorder, messages = graphed()
    padding = torch.zeros(3, 4, dtype=torch.bool) if padded else None
    large = [batch for batch in data if batch.sentences == 3]
    take(trainer, [it._replace(inputs=it.inputs._replace(padding=padding)) for it in large])
    assert recorder.captures == (0 if padded else 2) and not messages


@pytest.mark.parametrize("captures", [0, 1, 2])
def test_running_out_of_memory_in_a_capture_ends_graphs_and_not_the_run(
    graphed, make_trainer, data, captures
):
    trainer, recorder, messages = graphed(FailingRecorder(captures))
    assert_equal(take(trainer, data), take(make_trainer(**ADAMW), data))
    assert recorder.captures == captures
    assert messages == [
        "CUDA graphs: none from now on (OutOfMemoryError: CUDA out of memory. Tried to allocate "
        "2.00 GiB)"
    ]


def test_running_out_of_memory_in_a_pass_ends_graphs_and_repeats_the_update(
    graphed, batch, memory, data
):
    trainer, _, messages = graphed()
    large = batch([[3] * 4] * 8)
    trainer.accumulate_gradients.loader = memory([*data, large])

    def check(module, inputs):
        if inputs[0].inputs.tokens.shape[0] > 6:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    take(trainer, data)
    trainer.learner.register_forward_pre_hook(check)
    step = trainer.step([large], 10**9)
    assert len(step.oom_failures) == 1 and step.outcome.norm > 0
    assert len(messages) == 1 and messages[0].startswith(
        "CUDA graphs: none from now on (MemoryError: a batch"
    )
    graphs = trainer.accumulator.graphs
    assert not (graphs.passes or graphs.updates or graphs.buffers)


def test_a_model_that_cannot_be_captured_trains_without_graphs(graphed, make_trainer, data):
    def read(module, inputs):
        assert float(inputs[0].targets.sum()) > 0

    plain, (trainer, _, messages) = make_trainer(**ADAMW), graphed()
    trainer.learner.register_forward_pre_hook(read)
    assert_equal(take(trainer, data), take(plain, data))
    assert len(messages) == 1 and "waits for the device" in messages[0]


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_non_finite_losses_skip_updates_in_graphs(graphed, make_trainer, data, poison):
    def poisoned(trainer):
        sums = trainer.criterion.forward
        bad = torch.zeros(())
        trainer.criterion.forward = lambda p: {k: v + bad for k, v in sums(p).items()}
        first = take(trainer, data[:6])[0]
        bad.fill_(poison)
        second = take(trainer, data[6:8])[0]
        bad.zero_()
        third, weights = take(trainer, data[8:])
        return [step.outcome for step in first + second + third], weights

    found, wanted = poisoned(graphed()[0]), poisoned(make_trainer(**ADAMW))
    assert [bool(outcome.skipped) for outcome in found[0]] == [False] * 6 + [True] * 2 + [False] * 2
    assert all(map(torch.equal, found[1], wanted[1]))


def test_a_parameter_without_gradient_keeps_its_value_in_graphs(graphed, make_trainer, data):
    def select(module, inputs):
        module.task.even.requires_grad_(inputs[0].inputs.tokens.shape[0] == 3)

    found, wanted = graphed()[0], make_trainer(**ADAMW)
    for trainer in (found, wanted):
        trainer.learner.register_forward_pre_hook(select)
    assert_equal(take(found, data), take(wanted, data))
    assert len(found.accumulator.graphs.updates) == 2


def test_the_loss_scale_is_followed(graphed, make_trainer, data):
    def scaled(trainer):
        trainer.precision.loss_scale.interval = 3
        return take(trainer, data)

    found, wanted = graphed(precision="fp16")[0], make_trainer(**ADAMW, precision="fp16")
    assert_equal(scaled(found), scaled(wanted))
    assert found.precision.loss_scale.state() == wanted.precision.loss_scale.state()
    assert found.precision.loss_scale.scale > 2**15
