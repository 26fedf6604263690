"""What CUDA graphs record: when they are enabled, static batches, and the calls of torch.cuda."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import MagicMock, patch

import pytest
import torch
from torch import nn

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch
from toolkit.training import cuda_graphs
from toolkit.training.adjustments import make_adjustments
from toolkit.training.cuda_graphs import (
    GraphedAccumulator,
    batch_signature,
    choose_row_multiple,
    enable_cuda_graphs,
    fill,
    make_static,
    reason_against_graphs,
    record_updates,
)
from toolkit.training.graph_recorder import ExternalTensors, GraphRecorder
from toolkit.training.run import TrainingRun

GPU = torch.device("cuda", 0)
REASONS = {
    "the device is cpu": (World(), {}),
    "several ranks exchange gradients": (World(size=2, device=GPU), {}),
    "activation checkpointing sets the generator's state during the backward pass": (
        World(device=GPU),
        {"checkpoint_activations": True},
    ),
    "": (World(device=GPU), {"compile": True}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_runs_that_cannot_have_graphs_have_a_reason(reason):
    world, options = REASONS[reason]
    assert reason_against_graphs(TrainingConfig(max_update=1, **options), world) == reason


def test_batches_for_graphs_have_fewer_numbers_of_selected_positions(config):
    on, off = (TrainingConfig(max_update=1, cuda_graph=choice) for choice in ("auto", "off"))
    assert choose_row_multiple(on, World(device=GPU)) == 256
    assert {choose_row_multiple(*each) for each in ((off, World(device=GPU)), (on, World()))} == {
        64
    }


class PluginLayer(nn.Linear):
    pass


class RecordedLayer(nn.Linear):
    allows_cuda_graphs = True


LEARNERS = {
    nn.Linear: "",
    RecordedLayer: "",
    PluginLayer: "CUDA graphs: none, since PluginLayer of a plugin does not set allows_cuda_graphs",
}


@pytest.mark.parametrize("layer", LEARNERS)
def test_modules_of_plugins_have_no_graphs_unless_they_allow_them(config, monkeypatch, layer):
    training = TrainingRun(config(max_update=2), World())
    trainer, messages = training.trainer, []
    training.close()
    trainer.learner.extra, trainer.world = layer(2, 2), World(device=GPU)
    monkeypatch.setattr(cuda_graphs, "GraphRecorder", lambda device: OperationRecorder())
    enable_cuda_graphs(trainer, TrainingConfig(max_update=1), messages.append)
    assert messages == [LEARNERS[layer]] * bool(LEARNERS[layer])
    assert isinstance(trainer.accumulator, GraphedAccumulator) is not bool(messages)


def test_option_that_changes_during_the_run_ends_graphs(config):
    c, messages = config(**{"arch.dropout": "0.2:0"}), []
    training = TrainingRun(c, World())
    training.close()
    record_updates(training.trainer, OperationRecorder(), messages.append)
    make_adjustments(c, training.train, training.trainer)
    assert training.trainer.accumulator.graphs.stopped
    assert messages == [
        "CUDA graphs: none from now on (ToolkitError: arch.dropout changes during the run)"
    ]


CPU = torch.device("cpu")


def make_batch(tokens=(2, 3), padding=None, rows=4, weight=4.0, **inputs):
    given = Inputs(torch.arange(tokens[0] * tokens[1]).view(tokens), padding=padding, **inputs)
    targets = torch.arange(rows)
    return TargetBatch(given, targets, targets, {"mlm": weight}, tokens[0], 6)


DIFFERENT = {
    "shape": {"tokens": (3, 2)},
    "padding": {"padding": torch.zeros(2, 3, dtype=torch.bool)},
    "type of padding": {"padding": torch.zeros(2, 3)},
    "number of selected positions": {"rows": 5},
    "highest position": {"max_position": 7},
    "a weight of zero": {"weight": 0.0},
}


@pytest.mark.parametrize("options", DIFFERENT.values(), ids=DIFFERENT)
def test_batches_that_need_other_graphs_have_other_signatures(options):
    assert batch_signature(make_batch(**options)) != batch_signature(make_batch())


def test_values_and_numbers_of_the_host_are_not_in_the_signature():
    other = make_batch(weight=3.0)._replace(targets=torch.zeros(4).long(), sentences=1, tokens=2)
    assert batch_signature(other) == batch_signature(make_batch())


def test_static_batch_takes_the_values_of_another_at_the_same_addresses():
    static = make_static(make_batch(), CPU)
    before = static.inputs.tokens
    other = make_batch()._replace(inputs=Inputs(torch.full((2, 3), 9)))
    fill(static, other)
    assert static.inputs.tokens is before and (before == 9).all()
    assert torch.equal(static.targets, other.targets)


def test_numbers_of_the_host_cannot_enter_a_graph():
    batch = make_static(make_batch(), CPU)
    with pytest.raises(TypeError, match=r"captured in a CUDA graph cannot read batch\.tokens"):
        batch.inputs.tokens.sum() / batch.tokens
    with pytest.raises(TypeError, match=r"cannot read batch\.sentences"):
        bool(batch.sentences)
    with pytest.raises(TypeError, match=r"cannot read batch\.weights"):
        float(batch.weights["mlm"])


@lru_cache(maxsize=1)
def table(length):
    return torch.arange(length).float()


def test_tensors_from_outside_are_found_and_those_made_inside_are_not():
    weight, x = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    with ExternalTensors() as seen:
        y = (weight * x).exp()
        y.sum().backward()
    assert {id(tensor) for tensor in seen.found.values()} == {id(weight), id(x)}


def test_a_view_stands_for_the_memory_behind_it():
    x = torch.ones(3)
    with ExternalTensors() as seen:
        x[1:] * 2
        x.view(3, 1) + 1
    assert [tensor.untyped_storage().data_ptr() for tensor in seen.found.values()] == [x.data_ptr()]


@pytest.mark.slow
def test_a_cached_table_outlives_its_cache():
    table(4)
    with ExternalTensors() as seen:
        table(4) + 1
    kept = weakref.ref(table(4))
    table(5)
    gc.collect()
    assert kept() is not None
    del seen
    gc.collect()
    assert kept() is None


class FakeCuda:
    """The part of torch.cuda that recording uses; notes on which stream a body runs, and how."""

    def __init__(self):
        self.current, self.mode, self.capturing = "main", 0, None
        self.side = MagicMock(name="side stream")
        self.replays = 0

    def state(self):
        return ("side" if self.current is self.side else self.current, self.mode, self.capturing)

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before  # not after an error, like torch.cuda.graph

    @contextmanager
    def graph(self, graph, *, pool, stream, capture_error_mode):
        assert stream is self.side and pool == "pool"
        self.capturing = capture_error_mode
        yield
        self.capturing = None

    def set_stream(self, stream):
        self.current = stream

    def set_sync_debug_mode(self, mode):
        self.mode = mode

    def replay(self):
        self.replays += 1

    def functions(self):
        main = MagicMock(name="main stream")
        self.current = main
        return {
            "Stream": lambda device: self.side,
            "graph_pool_handle": lambda: "pool",
            "CUDAGraph": lambda: self,
            "graph": self.graph,
            "stream": self.stream,
            "current_stream": lambda device: self.current,
            "set_stream": self.set_stream,
            "get_sync_debug_mode": lambda: self.mode,
            "set_sync_debug_mode": self.set_sync_debug_mode,
        }


@pytest.fixture
def cuda():
    fake = FakeCuda()
    with patch.multiple(torch.cuda, **fake.functions()):
        yield fake


@pytest.fixture
def recorder(cuda):
    return GraphRecorder(torch.device("cuda", 0))


def test_warm_up_runs_once_freely_and_once_without_synchronizations(cuda, recorder):
    states, main, x = [], cuda.current, torch.ones(2)

    def body():
        states.append(cuda.state())
        return x + 1

    (found,) = recorder.warm_up(body)
    assert found is x
    assert states == [("side", 0, None), ("side", "error", None)]
    assert cuda.current is main and cuda.mode == 0


def test_capture_runs_once_in_a_graph_of_the_capturing_thread(cuda, recorder):
    states, main, out = [], cuda.current, torch.ones(2)

    def body():
        states.append(cuda.state())
        return out

    replay = recorder.capture(body)
    assert states == [("side", 0, "thread_local")] and cuda.current is main
    assert replay() is out and replay() is out and cuda.replays == 2


@pytest.mark.parametrize("method", ["warm_up", "capture"])
def test_failure_leaves_the_stream_and_the_mode_as_they_were(cuda, recorder, method):
    main = cuda.current

    def body():
        raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.raises(RuntimeError, match="synchronizing"):
        getattr(recorder, method)(body)
    assert cuda.current is main and cuda.mode == 0
