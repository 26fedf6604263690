"""The recorder for CPUs treats work as a CUDA graph does."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.operation_recorder import OperationRecorder


@pytest.fixture
def capture():
    return OperationRecorder().capture


def test_a_replay_reads_tensors_and_remembers_numbers(capture):
    x, numbers = torch.ones(3), [2.0]
    replay = capture(lambda: x * numbers[0])
    x.fill_(5)
    numbers[0] = 100.0
    assert replay().tolist() == [10, 10, 10]


def test_a_capture_changes_nothing(capture):
    x, state = torch.ones(2), torch.zeros(4)
    replay = capture(lambda: state[1:3].add_(x).sum())
    assert not state.any()
    assert replay() == 2 and replay() == 4
    assert state.tolist() == [0, 2, 2, 0]


def test_a_replay_draws_from_the_generator_as_it_then_is(capture):
    replay = capture(lambda: torch.rand(3))
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(replay(), wanted)


def test_a_replay_has_forward_and_backward(capture):
    w, x = torch.nn.Parameter(torch.tensor([2.0])), torch.tensor([3.0])
    w.grad = torch.zeros(1)

    def square():
        loss = (w * x).square().sum()
        loss.backward()
        return loss.detach()

    replay = capture(square)
    x.fill_(1)
    assert replay() == 4 and w.grad == 4
    replay()
    assert w.grad == 8


def test_work_that_reads_a_number_cannot_be_captured(capture):
    x = torch.ones(())
    with pytest.raises(RuntimeError, match="_local_scalar_dense waits for the device"):
        capture(lambda: x * float(x))
